use super::*;

/// The small configuration with its issuer, then this from line 10 on.
fn with(added: &str) -> String {
    format!("{MINIMAL}{}{added}", ISSUER.trim_start())
}

#[test]
fn a_store_is_embedded_unless_it_is_written() {
    let config = good(MINIMAL);
    assert_eq!((config.store.kind, config.redis.is_none()), (StoreKind::Embedded, true));
    let rates_alone = read_in(&with("[redis]\nurl = \"redis://127.0.0.1\"\n"), &[], &[]).unwrap();
    let twice = "a requestId that is sent to two of them is paid twice";
    assert!(rates_alone.warnings.iter().any(|one| one.text.contains(twice)), "{:?}", rates_alone.warnings);
    let rates_alone = rates_alone.config;
    assert_eq!(rates_alone.redis.unwrap().demands, None);
}

#[test]
fn what_is_demanded_of_a_redis_that_is_the_store() {
    let demands = |redis: &str| {
        let store = "[store]\nkind = \"redis\"\nnode = \"left\"\n";
        let config = good(&with(&format!("{store}[redis]\nurl = \"redis://127.0.0.1\"\n{redis}")));
        assert_eq!(config.store.kind, StoreKind::Redis);
        config.redis.unwrap().demands.unwrap()
    };
    let of = |durability, allow_unsafe| Demands { durability, allow_unsafe };
    assert_eq!(demands(""), of(Durability::Acknowledged, false));
    assert_eq!(demands("allow_unsafe = true\n"), of(Durability::Acknowledged, true));
    assert_eq!(demands("durability = \"replicated\"\n"), of(Durability::Replicated { replicas: 1 }, false));
    let two = demands("durability = \"replicated\"\nreplicas = 2\n");
    assert_eq!(two, of(Durability::Replicated { replicas: 2 }, false));
    assert_eq!(demands("durability = \"fsynced\"\n"), of(Durability::Fsynced, false));
}

#[test]
fn a_shared_store_needs_its_redis_and_a_name_for_each_gate() {
    let told = |text: &str| wrong(&with(text), &[], &[]);
    let homeless = told("[store]\nkind = \"redis\"\nnode = \"left\"\n");
    assert!(homeless.iter().any(|one| one.contains("there is no `redis.url`")), "{homeless:?}");
    let nameless = told("[store]\nkind = \"redis\"\n[redis]\nurl = \"redis://127.0.0.1\"\n");
    assert!(nameless.iter().any(|one| one.contains("`store.node` is not written")), "{nameless:?}");
    for (name, value) in [("durability", "\"fsynced\""), ("allow_unsafe", "true"), ("replicas", "2")] {
        let useless = told(&format!("[redis]\nurl = \"redis://127.0.0.1\"\n{name} = {value}\n"));
        let fault = format!("`redis.{name}` has no use");
        assert!(useless.iter().any(|one| one.contains(&fault)), "{useless:?}");
    }
    let odd = told("[store]\nkind = \"disk\"\n");
    assert!(odd.iter().any(|one| one.contains("`disk` is not a choice here")), "{odd:?}");
}
