fn main() {
    for world in readers::world::World::all() {
        println!("{}: {}", world.name, world.cases());
    }
}
