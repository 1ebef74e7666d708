//! The chain of proofs from a decision to its one send: each way around it fails to compile.

#[test]
fn every_way_around_the_chain_of_proofs_fails_to_compile() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/compile_fail/*.rs");
}
