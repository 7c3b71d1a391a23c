//! The full run of the fault harness, for people: `scripts/chaos --help`.

use leasehold_tests::chaos::worker;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, command, job] = &*arguments
        && command == "worker"
    {
        worker::main(job);
    }
}
