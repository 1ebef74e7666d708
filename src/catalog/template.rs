//! Path templates.

use std::fmt;

/// `/v2/users/{userId}` as segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    segments: Vec<Segment>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    Literal(String),
    Parameter(String),
}

impl Template {
    /// Returns `None` if the text is not a path of whole literals and whole parameters.
    pub fn parse(text: &str) -> Option<Template> {
        let segments = text.strip_prefix('/')?.split('/').map(Segment::parse).collect::<Option<Vec<_>>>()?;
        Some(Template { segments })
    }

    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    pub fn parameters(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(|s| match s {
            Segment::Parameter(name) => Some(name.as_str()),
            Segment::Literal(_) => None,
        })
    }

    /// Returns whether a path with these segments matches.
    pub fn fits(&self, path: &[&str]) -> bool {
        let fits = |(segment, found): (&Segment, &&str)| match segment {
            Segment::Literal(text) => text == found,
            Segment::Parameter(_) => !found.is_empty(),
        };
        self.segments.len() == path.len() && self.segments.iter().zip(path).all(fits)
    }

    /// Returns the parameters of a matching path.
    pub fn values(&self, path: &[&str]) -> Vec<(String, String)> {
        let value = |(segment, found): (&Segment, &&str)| match segment {
            Segment::Literal(_) => None,
            Segment::Parameter(name) => Some((name.clone(), (*found).to_owned())),
        };
        self.segments.iter().zip(path).filter_map(value).collect()
    }

    /// Fills the parameters in.
    pub fn fill(&self, values: &[(String, String)]) -> String {
        let value_of = |name: &str| values.iter().find(|(n, _)| n == name).map_or("", |(_, v)| v.as_str());
        self.segments.iter().fold(String::new(), |mut path, segment| {
            path.push('/');
            path.push_str(match segment {
                Segment::Literal(text) => text,
                Segment::Parameter(name) => value_of(name),
            });
            path
        })
    }

    /// Sorts templates so that at each place a literal stands before a parameter.
    pub fn precedence(&self) -> Vec<bool> {
        self.segments.iter().map(|s| matches!(s, Segment::Parameter(_))).collect()
    }
}

impl Segment {
    fn parse(text: &str) -> Option<Segment> {
        let allowed = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
        match text.strip_prefix('{').and_then(|t| t.strip_suffix('}')) {
            Some(name) => allowed(name).then(|| Segment::Parameter(name.to_owned())),
            None => allowed(text).then(|| Segment::Literal(text.to_owned())),
        }
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for segment in &self.segments {
            match segment {
                Segment::Literal(text) => write!(f, "/{text}")?,
                Segment::Parameter(name) => write!(f, "/{{{name}}}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_fits_or_does_not() {
        let template = Template::parse("/v2/users/{userId}/accounts/{accountId}").unwrap();
        let segments = |path: &'static str| path.strip_prefix('/').unwrap_or(path).split('/').collect::<Vec<_>>();
        let values = [("userId".to_owned(), "u-1".to_owned()), ("accountId".to_owned(), "a".to_owned())];
        assert!(template.fits(&segments("/v2/users/u-1/accounts/a")));
        assert_eq!(template.values(&segments("/v2/users/u-1/accounts/a")), values);
        for other in [
            "/v2/users/u-1/accounts",
            "/v2/users/u-1/accounts/a/",
            "/v2/users//accounts/a",
            "/V2/users/u-1/accounts/a",
            "/v2/users/u-1/accounts/a/b",
        ] {
            assert!(!template.fits(&segments(other)), "{other}");
        }
        assert_eq!(template.fill(&values), "/v2/users/u-1/accounts/a");
        assert_eq!(template.to_string(), "/v2/users/{userId}/accounts/{accountId}");
    }

    #[test]
    fn a_parameter_is_a_whole_segment() {
        for bad in ["v2", "/v2//x", "/v2/{a}b", "/v2/{}", "/v2/a b"] {
            assert_eq!(Template::parse(bad), None, "{bad}");
        }
    }
}
