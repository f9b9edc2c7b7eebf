

def main():
    """Print a vector file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["vectors"])
    parser.add_argument("--seed", default="vectors")
    octets = Octets(f"{NAME} {parser.parse_args().seed}")
    lines = []
    for number, test in enumerate(tests(octets), 1):
        fields = {name: value.hex() if isinstance(value, bytes) else value for name, value in test.items()}
        lines.append(json.dumps({"tcId": number, "result": "valid", **fields}))
    print(f'{{"cipher": "{NAME}", "tests": [')
    print(",\n".join(lines))
    print("]}")


if __name__ == "__main__":
    main()
