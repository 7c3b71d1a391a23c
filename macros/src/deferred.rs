//! Return types whose work begins or continues after the body has returned: futures, streams and
//! tasks. The lock is released by then. Types are recognized by their written names.

use proc_macro2::Span;
use syn::{GenericArgument, Path, PathArguments, PathSegment, Type, TypeParamBound};

use crate::diag::Message;

/// A part of a return type whose work begins or continues after the release of the lock.
#[derive(Debug)]
pub(crate) struct Deferred {
    /// Name of the type or trait, such as `BoxStream`.
    name: String,
    work: Work,
    pub(crate) span: Span,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Future,
    Stream,
    Task,
}

/// Traits of deferred work. A return type has them as `impl Trait` or `dyn Trait`.
const TRAITS: [(&str, Work); 7] = [
    ("Future", Work::Future),
    ("IntoFuture", Work::Future),
    ("FusedFuture", Work::Future),
    ("Stream", Work::Stream),
    ("TryStream", Work::Stream),
    ("FusedStream", Work::Stream),
    ("AsyncIterator", Work::Stream),
];

/// Types of deferred work. They count only with parameters, such as `BoxStream<'_, u64>`, because a
/// type with the same name but without parameters is a different type.
const TYPES: [(&str, Work); 14] = [
    ("BoxFuture", Work::Future),
    ("LocalBoxFuture", Work::Future),
    ("BoxStream", Work::Stream),
    ("LocalBoxStream", Work::Stream),
    ("ReceiverStream", Work::Stream),
    ("UnboundedReceiverStream", Work::Stream),
    // Responses of axum and actix-web, and of the crate `http-body-util`.
    ("Sse", Work::Stream),
    ("StreamBody", Work::Stream),
    ("BodyStream", Work::Stream),
    ("SizedStream", Work::Stream),
    // An answer of a tonic client.
    ("Streaming", Work::Stream),
    ("JoinHandle", Work::Task),
    ("ScopedJoinHandle", Work::Task),
    ("JoinSet", Work::Task),
];

/// Types that contain values of their type parameters, such as `Option<T>`. Any other type whose
/// name ends with `Result` counts too.
const WRAPPERS: [&str; 11] = [
    "Option", "Pin", "Box", "Arc", "Rc", "Vec", "VecDeque", "HashMap", "BTreeMap", "Poll",
    "Response",
];

impl Deferred {
    /// Returns the first part of a return type whose work begins or continues after the release of
    /// the lock.
    pub(crate) fn find(ty: &Type) -> Option<Self> {
        match ty {
            Type::Path(path) => path.path.segments.last().and_then(Self::in_segment),
            Type::ImplTrait(found) => found.bounds.iter().find_map(Self::in_bound),
            Type::TraitObject(found) => found.bounds.iter().find_map(Self::in_bound),
            Type::Tuple(tuple) => tuple.elems.iter().find_map(Self::find),
            Type::Array(array) => Self::find(&array.elem),
            Type::Slice(slice) => Self::find(&slice.elem),
            Type::Reference(reference) => Self::find(&reference.elem),
            Type::Paren(inside) => Self::find(&inside.elem),
            Type::Group(inside) => Self::find(&inside.elem),
            // A returned function, such as `fn() -> BoxFuture<…>`, is accepted: no work exists
            // until someone calls it.
            _ => None,
        }
    }

    fn in_bound(bound: &TypeParamBound) -> Option<Self> {
        match bound {
            TypeParamBound::Trait(bound) => Self::of_trait(&bound.path),
            _ => None,
        }
    }

    fn of_trait(path: &Path) -> Option<Self> {
        let last = path.segments.last()?;
        let work = work(&TRAITS, last)?;
        Some(Self::new(last, work))
    }

    /// Returns the type if its name shows that it is a future, such as `Self::Future`. Called only
    /// for functions that are not async: their bodies cannot await the future, so they return it
    /// unfinished.
    pub(crate) fn alias(ty: &Type) -> Option<Self> {
        let Type::Path(path) = ty else {
            return None;
        };
        let segment = path.path.segments.last()?;
        let name = segment.ident.to_string();
        (name.ends_with("Future") || name.ends_with("Fut"))
            .then(|| Self::new(segment, Work::Future))
    }

    fn in_segment(segment: &PathSegment) -> Option<Self> {
        let PathArguments::AngleBracketed(arguments) = &segment.arguments else {
            return None;
        };
        if let Some(work) = work(&TYPES, segment) {
            return Some(Self::new(segment, work));
        }
        let name = segment.ident.to_string();
        if !(name.ends_with("Result") || WRAPPERS.contains(&name.as_str())) {
            return None;
        }
        arguments.args.iter().find_map(|argument| match argument {
            GenericArgument::Type(ty) => Self::find(ty),
            _ => None,
        })
    }

    fn new(segment: &PathSegment, work: Work) -> Self {
        Self {
            name: segment.ident.to_string(),
            work,
            span: segment.ident.span(),
        }
    }

    pub(crate) fn message(&self) -> Message {
        let name = &self.name;
        let (what, help) = match self.work {
            Work::Future => (
                format!(
                    "the lock is released when the body returns, before this `{name}` is polled"
                ),
                "await it in the body and return its output",
            ),
            Work::Stream => (
                format!(
                    "the lock is released when the body returns, before the items of this `{name}` \
                     are produced"
                ),
                "return the finished items, or take the lock inside the stream, which then owns the guard: `pool.lock(key).ttl(ttl).acquire()`",
            ),
            Work::Task => (
                format!(
                    "the lock is released when the body returns, and the task of this `{name}` \
                     continues without it"
                ),
                "await the task in the body, or put the attribute on the function that the task runs",
            ),
        };
        let own = "if this is another type of the same name, return it through an alias";
        Message::new(what).help(format!("{help}; {own}"))
    }
}

fn work(names: &[(&str, Work)], segment: &PathSegment) -> Option<Work> {
    let known = names.iter().find(|(name, _)| segment.ident == name);
    known.map(|(_, work)| *work)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(ty: &str) -> Option<(String, Work)> {
        let ty: Type = syn::parse_str(ty).expect("a type");
        Deferred::find(&ty).map(|found| (found.name, found.work))
    }

    /// Fails if a return type whose work outlives the lock is not recognized.
    #[test]
    fn return_types_with_deferred_work_are_recognized() {
        for (ty, name, work) in [
            ("impl Future<Output = u64>", "Future", Work::Future),
            (
                "impl Send + std::future::Future<Output = u64> + 'a",
                "Future",
                Work::Future,
            ),
            (
                "Pin<Box<dyn Future<Output = u64> + Send>>",
                "Future",
                Work::Future,
            ),
            ("BoxFuture<'static, u64>", "BoxFuture", Work::Future),
            (
                "Result<impl Future<Output = ()>, Error>",
                "Future",
                Work::Future,
            ),
            ("impl Stream<Item = u64>", "Stream", Work::Stream),
            (
                "Result<BoxStream<'_, u64>, Error>",
                "BoxStream",
                Work::Stream,
            ),
            (
                "anyhow::Result<Pin<Box<dyn Stream<Item = u64>>>>",
                "Stream",
                Work::Stream,
            ),
            (
                "Result<Sse<impl Stream<Item = Event>>, Error>",
                "Sse",
                Work::Stream,
            ),
            (
                "Result<Response<ReceiverStream<u64>>, Status>",
                "ReceiverStream",
                Work::Stream,
            ),
            ("JoinHandle<()>", "JoinHandle", Work::Task),
            (
                "ApiResult<(u64, tokio::task::JoinHandle<u64>)>",
                "JoinHandle",
                Work::Task,
            ),
            ("Option<Vec<JoinHandle<u64>>>", "JoinHandle", Work::Task),
            ("[JoinHandle<u64>; 2]", "JoinHandle", Work::Task),
        ] {
            assert_eq!(found(ty), Some((name.to_owned(), work)), "{ty}");
        }
    }

    /// Fails if a return type is refused although its value contains no unfinished work, or only
    /// work that the caller begins.
    #[test]
    fn return_types_with_finished_work_are_accepted() {
        for ty in [
            "()",
            "Result<u64, Error>",
            "Result<impl IntoResponse, Error>",
            "impl Iterator<Item = u64>",
            "Streaming",
            "Sse",
            "JoinHandle",
            "futures::Error",
            "Registry<JoinHandle<()>>",
            "PhantomData<JoinHandle<()>>",
            "fn() -> BoxFuture<'static, u64>",
            "Box<dyn Fn() -> BoxFuture<'static, u64>>",
            "impl Fn() -> Pin<Box<dyn Future<Output = u64>>>",
            "<Shop as Store>::Stream",
            "Self::Stream",
        ] {
            assert_eq!(found(ty), None, "{ty}");
        }
    }
}
