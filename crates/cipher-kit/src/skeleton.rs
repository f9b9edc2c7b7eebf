//! skeleton
/// Kind
pub struct Kind;
/// Language
pub struct Language;
/// Skeleton
pub struct Skeleton;
/// SkeletonError
pub struct SkeletonError;
/// SkeletonFile
pub struct SkeletonFile;
