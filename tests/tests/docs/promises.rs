//! Checks that each promise has, for each store, tests or the reason why the store lacks it.
//! Also checks that `docs/reliability/promises.md` shows the promises as a matrix.
//!
//! The part of this page between the two markers is generated from `tests/promises.txt`. After a
//! change of the text file, run
//! `PROMISES=overwrite cargo test -p leasehold-tests --test docs promises`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::sync::LazyLock;

use super::test_names::tests_of;
use super::{read, root};

const PAGE: &str = "docs/reliability/promises.md";
const SOURCE: &str = "tests/promises.txt";
const BEGIN: &str = "<!-- generated from tests/promises.txt: begin -->\n";
const END: &str = "<!-- generated from tests/promises.txt: end -->\n";

/// A lock store: a column of the matrix.
struct Store {
    name: String,
    schemes: Vec<String>,
}

/// A promise: a row of the matrix.
#[derive(Default)]
struct Promise {
    title: String,
    text: Vec<String>,
    cells: BTreeMap<String, Cell>,
}

#[derive(Default)]
struct Cell {
    shown_by: Vec<String>,
    not_promised: Option<String>,
}

impl Cell {
    fn is_empty(&self) -> bool {
        self.shown_by.is_empty() && self.not_promised.is_none()
    }
}

/// A reason for which stores do not give a promise, and the names of these stores.
type Reason<'a> = (&'a str, Vec<&'a str>);

struct Matrix {
    stores: Vec<Store>,
    promises: Vec<Promise>,
}

impl Matrix {
    fn read() -> Self {
        Self::parse(&read(&root().join(SOURCE)))
    }

    fn parse(text: &str) -> Self {
        let (mut stores, mut promises) = (Vec::new(), Vec::<Promise>::new());
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let (sign, rest) = line.split_once(' ').unwrap_or((line, ""));
            let parts = || {
                let (names, rest) = rest.split_once(':').expect("a colon after the stores");
                let names = names.split_whitespace().map(str::to_owned);
                (names.collect::<Vec<_>>(), rest.trim())
            };
            match sign {
                "//" => {}
                "store" => {
                    let (name, schemes) = parts();
                    let schemes = schemes.split_whitespace().map(str::to_owned).collect();
                    let name = name.concat();
                    stores.push(Store { name, schemes });
                }
                "#" => promises.push(Promise {
                    title: rest.to_owned(),
                    ..Promise::default()
                }),
                "+" | "-" => {
                    let (names, rest) = parts();
                    let promise = promises.last_mut().expect("a promise before its cells");
                    for store in names {
                        let cell = promise.cells.entry(store.clone()).or_default();
                        if sign == "-" {
                            cell.not_promised = Some(rest.to_owned());
                        } else {
                            let tests = rest.split_whitespace();
                            let tests = tests.map(|test| test.replace("<store>", &store));
                            cell.shown_by.extend(tests);
                        }
                    }
                }
                _ => {
                    let promise = promises.last_mut().expect("a promise before its text");
                    promise.text.push(line.to_owned());
                }
            }
        }
        Self { stores, promises }
    }

    /// Returns the generated part of the page: the matrix, and the reason for each dash (a promise
    /// that a store does not give).
    fn page(&self) -> String {
        let mut page = String::from("\n| promise |");
        for store in &self.stores {
            write!(page, "{}|", store.name).expect("a string");
        }
        writeln!(page, "\n|---|{}", "---|".repeat(self.stores.len())).expect("a string");
        for promise in &self.promises {
            let text = promise.text.join(" ");
            write!(page, "| **{}.** {text} |", promise.title).expect("a string");
            for store in &self.stores {
                let cell = promise.cells.get(&store.name);
                let is_promised = cell.is_some_and(|cell| cell.not_promised.is_none());
                page += if is_promised { "yes|" } else { "–|" };
            }
            page.push('\n');
        }
        page += "\n### The reasons\n\n| promise | not on | reason |\n|---|---|---|\n";
        for ((reason, stores), titles) in self.reasons() {
            let (titles, stores) = (titles.join("; "), stores.join(", "));
            writeln!(page, "| {titles} | {stores} | {reason} |").expect("a string");
        }
        page.push('\n');
        page
    }

    /// Returns each reason with its stores, and the titles of the promises that these stores do not
    /// give for this reason.
    fn reasons(&self) -> Vec<(Reason<'_>, Vec<&str>)> {
        let mut rows: Vec<(Reason<'_>, Vec<&str>)> = Vec::new();
        for promise in &self.promises {
            for reason in self.reasons_of(promise) {
                match rows.iter_mut().find(|(other, _)| *other == reason) {
                    Some((_, titles)) => titles.push(&promise.title),
                    None => rows.push((reason, vec![promise.title.as_str()])),
                }
            }
        }
        rows
    }

    fn reasons_of<'a>(&'a self, promise: &'a Promise) -> Vec<Reason<'a>> {
        let mut reasons: Vec<Reason<'a>> = Vec::new();
        for store in &self.stores {
            let cell = promise.cells.get(&store.name);
            let Some(reason) = cell.and_then(|cell| cell.not_promised.as_deref()) else {
                continue;
            };
            match reasons.iter_mut().find(|(other, _)| *other == reason) {
                Some((_, stores)) => stores.push(&store.name),
                None => reasons.push((reason, vec![store.name.as_str()])),
            }
        }
        reasons
    }
}

/// Fails if the matrix in `docs/reliability/promises.md` is not the one that `tests/promises.txt`
/// generates.
#[test]
fn the_page_shows_the_matrix() {
    let path = root().join(PAGE);
    let page = read(&path);
    let (before, rest) = page.split_once(BEGIN).expect("the first marker");
    let (shown, after) = rest.split_once(END).expect("the second marker");
    let matrix = Matrix::read().page();
    if std::env::var("PROMISES").is_ok_and(|value| value == "overwrite") {
        let page = [before, BEGIN, &matrix, END, after].concat();
        fs::write(&path, page).expect("the page can be written");
        return;
    }
    let differs = shown.lines().zip(matrix.lines()).find(|(is, be)| is != be);
    assert!(
        shown == matrix,
        "{PAGE} is not what {SOURCE} says; run `PROMISES=overwrite cargo test -p leasehold-tests --test \
         docs promises`. The first difference: {differs:#?}"
    );
}

/// A line with `-` contains the reason why stores do not give a promise. Fails if the generated
/// page shows no dash for such a store, or omits the reason. Also fails if the page shows the names
/// of tests.
#[test]
fn a_dash_has_a_reason() {
    let matrix = Matrix::parse(
        "store memory: memory\nstore redis: redis\nstore etcd: etcd\n\
         # One\nIt holds,\nalways.\n+ memory redis etcd: a::<store>\n\
         # Two\nSome.\n- memory etcd: no answer\n+ redis: b::c\n\
         # Three\nIt ends.\n- memory etcd: no answer\n- redis: it stays\n",
    );
    let page = "\n| promise |memory|redis|etcd|\n|---|---|---|---|\n\
                | **One.** It holds, always. |yes|yes|yes|\n\
                | **Two.** Some. |–|yes|–|\n\
                | **Three.** It ends. |–|–|–|\n\
                \n### The reasons\n\n| promise | not on | reason |\n|---|---|---|\n\
                | Two; Three | memory, etcd | no answer |\n\
                | Three | redis | it stays |\n\n";
    assert_eq!(matrix.page(), page);
}

/// The test programs that a cell of the matrix may name, each with the names of its tests.
static PROGRAMS: LazyLock<[(&str, BTreeSet<String>); 4]> = LazyLock::new(|| {
    let programs = [
        ("behaviour", "tests/tests/behaviour/main.rs"),
        ("harness", "tests/tests/harness/main.rs"),
        ("kit", "tests/tests/kit/main.rs"),
        ("leasehold", "runtime/src/lib.rs"),
    ];
    programs.map(|(name, main)| (name, tests_of(main)))
});

/// Returns all mistakes in a matrix.
fn faults(matrix: &Matrix) -> Vec<String> {
    let mut faults = Vec::new();
    for promise in &matrix.promises {
        let title = &promise.title;
        for store in promise.cells.keys() {
            if !matrix.stores.iter().any(|known| known.name == *store) {
                faults.push(format!("{title}: `{store}` is no store"));
            }
        }
        for store in &matrix.stores {
            let store = &store.name;
            let cell = promise.cells.get(store);
            let Some(cell) = cell.filter(|cell| !cell.is_empty()) else {
                faults.push(format!("{title}: nothing for {store}"));
                continue;
            };
            if !cell.shown_by.is_empty() && cell.not_promised.is_some() {
                faults.push(format!("{title}: {store} has tests and no promise"));
            }
            for test in &cell.shown_by {
                if !exists(store, test) {
                    faults.push(format!("{title}: {store}: no test `{test}`"));
                }
            }
        }
    }
    faults
}

/// The requirements of the fault harness that `tests/tests/harness/requirements.rs` runs, each with
/// its store, such as `("1", "redis")`.
static PLAYED: LazyLock<BTreeSet<(String, String)>> = LazyLock::new(|| {
    let file = read(&root().join("tests/tests/harness/requirements.rs"));
    let (_, list) = file.split_once("\nrequirements! {\n").expect("the list");
    let (list, _) = list.split_once("\n}").expect("its end");
    let played = list.lines().filter_map(|line| {
        let (_, run) = line.trim_end_matches(',').split_once(": ")?;
        let (number, store) = run.split_once(' ')?;
        // A part of the requirement's text may precede the store.
        let store = store.rsplit(' ').next()?;
        Some((number.to_owned(), store.to_lowercase()))
    });
    let played: BTreeSet<_> = played.collect();
    assert!(50 < played.len(), "{played:?}");
    played
});

/// True if `test` names a test, a module with tests, or a requirement of the fault harness (such as
/// `chaos/1`) that the test program `harness` runs on `store`.
fn exists(store: &str, test: &str) -> bool {
    let (program, name) = test.split_once('/').unwrap_or(("behaviour", test));
    if program == "chaos" {
        return PLAYED.iter().any(|(number, on)| {
            number == name && (on == store || (on == "replicas" && store == "sentinel"))
        });
    }
    let tests = PROGRAMS.iter().find(|(known, _)| *known == program);
    let module = format!("{name}::");
    tests.is_some_and(|(_, tests)| {
        tests.contains(name) || tests.iter().any(|test| test.starts_with(&module))
    })
}

/// Fails if a cell of the matrix is empty, or names a test that does not exist.
#[test]
fn each_cell_has_tests_or_a_reason() {
    let matrix = Matrix::read();
    assert!(20 < matrix.promises.len(), "{}", matrix.promises.len());
    let faults = faults(&matrix);
    assert!(faults.is_empty(), "{SOURCE}: {faults:#?}");
}

/// Fails if the check accepts an empty cell, a missing test, an unknown store, or a cell with both
/// tests and a reason.
#[test]
fn faults_in_the_matrix_are_detected() {
    let found = |cells: &str| {
        let stores = "store memory: memory\nstore redis: redis\n";
        faults(&Matrix::parse(&format!("{stores}# P\nText.\n{cells}"))).len()
    };
    assert_eq!(
        found("+ memory: store::conformance::memory\n- redis: a reason"),
        0
    );
    assert_eq!(found("+ memory redis: store::conformance::<store>"), 0);
    assert_eq!(found("+ memory redis: chaos/1 bodies::exits::<store>"), 0);
    assert_eq!(found("+ memory: store::conformance::memory"), 1);
    assert_eq!(found("+ memory redis: store::conformance::gone"), 2);
    assert_eq!(found("+ memory redis: store::conform"), 2);
    assert_eq!(found("+ memory redis: chaos/12"), 1, "not in memory");
    assert_eq!(found("+ memory redis: chaos/250"), 2);
    assert_eq!(found("- memory redis etcd: a reason"), 1);
    assert_eq!(found("- memory redis: r\n+ redis: chaos/1"), 1);
}

/// Fails if the URL schemes in `tests/promises.txt` differ from those that the library accepts.
#[test]
fn each_scheme_has_a_column() {
    let code = read(&root().join("runtime/src/store/schemes.rs"));
    let (_, table) = code.split_once("backends! {").expect("the table");
    let (table, _) = table.split_once("\n}").expect("its end");
    let rows = table.lines().filter_map(|line| line.split_once("=>"));
    let schemes = rows.flat_map(|(schemes, _)| schemes.split('"').skip(1).step_by(2));
    let schemes: BTreeSet<&str> = schemes.chain(["memory"]).collect();
    let matrix = Matrix::read();
    let columns = matrix.stores.iter().flat_map(|store| &store.schemes);
    let columns: BTreeSet<&str> = columns.map(String::as_str).collect();
    assert_eq!(schemes, columns, "{SOURCE}");
    assert!(10 < schemes.len(), "{schemes:?}");
}
