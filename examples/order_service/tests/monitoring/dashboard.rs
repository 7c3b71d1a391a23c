//! The queries of the dashboard.

use super::page;
use super::prometheus::WINDOW;

/// A query of a panel, or of a variable of the dashboard.
#[derive(Debug)]
pub(crate) struct Query {
    pub(crate) of: String,
    pub(crate) text: String,
}

/// Returns all queries of the dashboard, with the values that Grafana would insert for the choice
/// "All".
pub(crate) fn queries() -> Vec<Query> {
    let dashboard: serde_json::Value =
        serde_json::from_str(&page("dashboard.json")).expect("the dashboard is JSON");
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        let title = panel["title"].as_str().expect("a title");
        for target in panel["targets"].as_array().expect("targets") {
            let text = target["expr"].as_str().expect("a query");
            queries.push(Query {
                of: title.to_owned(),
                text: inserted(text),
            });
        }
    }
    for variable in dashboard["templating"]["list"]
        .as_array()
        .expect("variables")
    {
        let name = variable["name"].as_str().expect("a name");
        if let Some(text) = variable["query"]["query"].as_str() {
            queries.push(Query {
                of: name.to_owned(),
                text: values_of(text),
            });
        }
    }
    queries
}

fn inserted(text: &str) -> String {
    let text = text.replace("$__rate_interval", WINDOW);
    let text = text.replace("$lock", ".*").replace("$store", ".*");
    assert!(!text.contains('$'), "a variable without a value: {text}");
    text
}

/// Converts `label_values(metric, label)`, with which Grafana reads the values of a variable, to a
/// query of Prometheus.
fn values_of(text: &str) -> String {
    let inside = text
        .strip_prefix("label_values(")
        .and_then(|text| text.strip_suffix(')'));
    let (metric, label) = inside
        .and_then(|inside| inside.split_once(", "))
        .expect(text);
    format!("count by ({label}) ({metric})")
}
