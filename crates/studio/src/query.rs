//! The part of an address behind its question mark.

use super::problem::HttpProblem;
use axum::http::Uri;
use std::collections::HashMap;
use std::str::FromStr;

/// Names and values of a query, decoded.
pub struct QueryValues(HashMap<String, String>);

impl QueryValues {
    /// The query of an address.
    pub fn new(uri: &Uri) -> QueryValues {
        QueryValues(form_urlencoded::parse(uri.query().unwrap_or("").as_bytes()).into_owned().collect())
    }

    /// The value of that name.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The number of that name, or `usual` if there is none.
    pub fn number<N: FromStr>(&self, name: &str, usual: N) -> Result<N, HttpProblem> {
        let wrong = |_| HttpProblem::refused(format!("{name} is not a number"), "give a number");
        self.value(name).map_or(Ok(usual), |text| text.parse().map_err(wrong))
    }
}
