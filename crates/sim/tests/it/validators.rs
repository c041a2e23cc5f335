//! Tests that the judges find no violation under any validator of scans.

use std::time::Duration;

use coeval_measure::validators;
use coeval_occ::Validator;
use coeval_sim::{Class, Engine, Load, Options, Scenario, run};
use coeval_txn::Isolation;

/// Every load under every validator but the default one, alternating between no faults
/// and power failures.
#[test]
fn every_load_is_serializable_under_every_validator() {
    let rivals = validators::ALL
        .iter()
        .filter(|validator| **validator != Validator::default());
    for (first, validator) in (300..).step_by(100).zip(rivals) {
        for (seed, &load) in (first..).zip(Load::ON_ANY_ENGINE) {
            let scenario = Scenario {
                engine: Engine::Occ,
                load,
                isolation: Isolation::Serializable,
                class: [Class::None, Class::Power][seed as usize % 2],
            };
            let options = Options {
                length: Duration::from_millis(600),
                validator: *validator,
                ..Options::new(scenario, seed)
            };
            let report = run(&options);
            let command = options.command();
            assert_eq!(report.objections, Vec::<String>::new(), "{command}");
            assert!(report.committed > 0, "{command}: {report}");
        }
    }
}
