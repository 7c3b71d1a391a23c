//! Classifies the types of arguments and errors by their written form, because a macro has no type
//! information.

use syn::{GenericArgument, GenericParam, Generics, PathArguments, ReturnType, Type};

/// Kinds of types that the macro treats in different ways, so that the user gets a better error.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A type parameter or an `impl Trait`. If a bound is missing, rustc can suggest it.
    Generic,
    /// A type of the standard library without public fields.
    WithoutFields(&'static str),
    #[default]
    Other,
}

/// Standard types without fields that take type arguments. A type of the same name without type
/// arguments is another type.
const GENERIC_WITHOUT_FIELDS: [&str; 8] = [
    "Vec", "VecDeque", "HashMap", "HashSet", "BTreeMap", "BTreeSet", "Option", "Result",
];

const WITHOUT_FIELDS: [&str; 18] = [
    "String", "str", "bool", "char", "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16",
    "i32", "i64", "i128", "isize", "f32", "f64",
];

impl Kind {
    pub(crate) fn of(ty: &Type, generics: &Generics) -> Self {
        match ty {
            Type::Reference(reference) => Self::of(&reference.elem, generics),
            Type::Paren(inside) => Self::of(&inside.elem, generics),
            Type::Group(inside) => Self::of(&inside.elem, generics),
            Type::ImplTrait(_) => Self::Generic,
            Type::Slice(_) | Type::Array(_) => Self::WithoutFields("slice"),
            Type::Path(path) if path.qself.is_none() => {
                let Some(last) = path.path.segments.last() else {
                    return Self::Other;
                };
                let name = last.ident.to_string();
                if path.path.get_ident().is_some() && is_parameter(&name, generics) {
                    return Self::Generic;
                }
                let without_fields: &[&str] = if last.arguments.is_none() {
                    &WITHOUT_FIELDS
                } else {
                    &GENERIC_WITHOUT_FIELDS
                };
                let known = without_fields.iter().find(|known| **known == name);
                known.map_or(Self::Other, |known| Self::WithoutFields(known))
            }
            _ => Self::Other,
        }
    }
}

/// True if `name` is a type parameter of the function, or looks like one of the impl around it:
/// `T` or `T2`. The macro does not see the impl.
fn is_parameter(name: &str, generics: &Generics) -> bool {
    let own = generics.params.iter().any(|parameter| match parameter {
        GenericParam::Type(parameter) => parameter.ident == name,
        _ => false,
    });
    let mut characters = name.chars();
    let is_letter = characters
        .next()
        .is_some_and(|first| first.is_ascii_uppercase());
    own || is_letter && characters.all(|c| c.is_ascii_digit())
}

/// Returns the error type of a function that returns `Result<_, E>`, if `E` is a type parameter.
pub(crate) fn generic_error(output: &ReturnType, generics: &Generics) -> Option<Type> {
    let ReturnType::Type(_, ty) = output else {
        return None;
    };
    let Type::Path(path) = &**ty else {
        return None;
    };
    let last = path
        .path
        .segments
        .last()
        .filter(|last| last.ident == "Result")?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else {
        return None;
    };
    let mut types = arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    });
    let (Some(_), Some(error @ Type::Path(_)), None) = (types.next(), types.next(), types.next())
    else {
        return None;
    };
    (Kind::of(error, generics) == Kind::Generic).then(|| error.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::{FnArg, Signature};

    fn signature(text: &str) -> Signature {
        syn::parse_str(text).expect("a signature")
    }

    #[test]
    fn arguments_are_classified() {
        for (ty, kind) in [
            ("Item", Kind::Generic),
            ("&Item", Kind::Generic),
            ("K", Kind::Generic),
            ("T2", Kind::Generic),
            ("impl Clone", Kind::Generic),
            ("Order", Kind::Other),
            ("Order<T>", Kind::Other),
            ("shop::T", Kind::Other),
            ("&[u8]", Kind::WithoutFields("slice")),
            ("&str", Kind::WithoutFields("str")),
            ("Duration", Kind::Other),
            ("std::vec::Vec<Order>", Kind::WithoutFields("Vec")),
            ("Arc<Order>", Kind::Other),
        ] {
            let signature = signature(&format!("async fn f<Item>(a: {ty})"));
            let Some(FnArg::Typed(parameter)) = signature.inputs.first() else {
                panic!("no parameter in {ty}");
            };
            assert_eq!(Kind::of(&parameter.ty, &signature.generics), kind, "{ty}");
        }
    }

    #[test]
    fn generic_error_types_are_recognized() {
        for (output, generic) in [
            ("Result<u8, E>", true),
            ("std::result::Result<u8, Failure>", true),
            ("Result<u8, OrderError>", false),
            ("Result<u8>", false),
            ("Answer<u8, E>", false),
            ("Result<u8, impl Error>", false),
            ("u8", false),
        ] {
            let signature = signature(&format!("async fn f<Failure>() -> {output}"));
            let error = generic_error(&signature.output, &signature.generics);
            assert_eq!(error.is_some(), generic, "{output}");
        }
    }
}
