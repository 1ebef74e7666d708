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
        let store = "[store]\nkind = \"redis\"\nnode = \"left\"\nseal_key = { file = \"seal.key\" }\n";
        let config = good(&with(&format!("{store}[redis]\nurl = \"redis://127.0.0.1\"\n{redis}")));
        assert_eq!(config.store.kind, StoreKind::Redis);
        config.redis.unwrap().demands.unwrap()
    };
    let trusted = TrustedTraits::default();
    let of = |durability, allow_unsafe| Demands { durability, allow_unsafe, trusted };
    assert_eq!(demands(""), of(Durability::Acknowledged, false));
    assert_eq!(demands("allow_unsafe = true\n"), of(Durability::Acknowledged, true));
    assert_eq!(demands("durability = \"replicated\"\n"), of(Durability::Replicated { replicas: 1 }, false));
    let two = demands("durability = \"replicated\"\nreplicas = 2\n");
    assert_eq!(two, of(Durability::Replicated { replicas: 2 }, false));
    assert_eq!(demands("durability = \"fsynced\"\n"), of(Durability::Fsynced, false));
    let trusted = TrustedTraits { persistence: true, run: true, eviction: false };
    assert_eq!(demands("trusted = [\"run\", \"persistence\"]\n").trusted, trusted);
}

#[test]
fn a_shared_store_needs_its_redis_and_a_name_for_each_gate() {
    let told = |text: &str| wrong(&with(text), &[], &[]);
    let homeless = told("[store]\nkind = \"redis\"\nnode = \"left\"\n");
    assert!(homeless.iter().any(|one| one.contains("neither `redis.url` nor")), "{homeless:?}");
    let nameless = told("[store]\nkind = \"redis\"\n[redis]\nurl = \"redis://127.0.0.1\"\n");
    assert!(nameless.iter().any(|one| one.contains("`store.node` is not set")), "{nameless:?}");
    for (name, value) in
        [("durability", "\"fsynced\""), ("allow_unsafe", "true"), ("replicas", "2"), ("trusted", "[\"run\"]")]
    {
        let useless = told(&format!("[redis]\nurl = \"redis://127.0.0.1\"\n{name} = {value}\n"));
        let fault = format!("`redis.{name}` has no effect");
        assert!(useless.iter().any(|one| one.contains(&fault)), "{useless:?}");
    }
    let odd = told("[store]\nkind = \"disk\"\n");
    assert!(odd.iter().any(|one| one.contains("`disk` is not a valid choice")), "{odd:?}");
}

#[test]
fn sentinels_say_where_the_redis_is() {
    let redis = "sentinels = [\"10.0.0.1:26379\", \"Sentinel-2.example.com\"]\nmaster = \"sluice\"\n";
    let shared = "[store]\nkind = \"redis\"\nnode = \"left\"\nseal_key = { file = \"seal.key\" }\n\
                  installation = \"one-installation\"\n[redis]\n";
    let reading = read_in(&with(&format!("{shared}{redis}durability = \"replicated\"\n")), &[], &[]).unwrap();
    // Where one of two is away, there is no majority.
    let told: Vec<_> = reading.warnings.iter().map(|one| one.text.as_str()).collect();
    assert!(told.len() == 1 && told[0].contains("names fewer than three Sentinels (2)"), "{told:?}");
    let twice = "sentinels = [\"a\", \"b\", \"A\"]\nmaster = \"sluice\"\ndurability = \"replicated\"\n";
    let told = wrong(&with(&format!("{shared}{twice}")), &[], &[]);
    assert!(told.iter().any(|one| one.contains("names `a:26379` twice")), "{told:?}");
    let RedisPlace::Sentinels(sentinels) = reading.config.redis.unwrap().place else { panic!("no Sentinels") };
    let addresses = [("10.0.0.1".to_owned(), 26_379), ("sentinel-2.example.com".to_owned(), 26_379)];
    assert_eq!((sentinels.addresses.as_slice(), sentinels.master.as_str()), (addresses.as_slice(), "sluice"));
    assert!(sentinels.tls && sentinels.login.password.is_none() && sentinels.sentinel_login.user.is_none());

    let lax = "allow_split = true\n";
    let told = wrong(&with(&format!("{shared}{redis}")), &[], &[]);
    assert!(told.iter().any(|one| one.contains("loses writes that only the old primary had")), "{told:?}");
    let logins = "user = \"a\"\npassword = { file = \"seal.key\" }\nsentinel_user = \"b\"\n\
                  sentinel_password = { file = \"seal.key\" }\ntls = false\n";
    let reading = read_in(&with(&format!("{shared}{redis}{logins}{lax}")), &[], &[]).unwrap();
    let RedisPlace::Sentinels(sentinels) = reading.config.redis.unwrap().place else { panic!("no Sentinels") };
    assert_eq!((sentinels.login.user.as_deref(), sentinels.sentinel_login.user.as_deref()), (Some("a"), Some("b")));
    assert!(sentinels.login.password.is_some() && sentinels.sentinel_login.password.is_some() && !sentinels.tls);
    let warnings: Vec<_> = reading.warnings.iter().map(|one| one.text.as_str()).collect();
    for warning in ["`redis.sentinels` is without TLS to another machine", "loses writes that only the old primary had"]
    {
        assert!(warnings.iter().any(|one| one.contains(warning)), "{warnings:?}");
    }
}

#[test]
fn what_is_trusted_of_a_redis_is_told() {
    let shared = "[store]\nkind = \"redis\"\nnode = \"left\"\nseal_key = { file = \"seal.key\" }\n\
                  installation = \"one-installation\"\n[redis]\nurl = \"redis://127.0.0.1\"\n";
    let trusted = "trusted = [\"persistence\", \"eviction\", \"run\"]\n";
    let reading = read_in(&with(&format!("{shared}{trusted}")), &[], &[]).unwrap();
    let warnings: Vec<_> = reading.warnings.iter().map(|one| one.text.as_str()).collect();
    for told in ["keeps every write that it acknowledged", "evicts no record", "loses nothing when it restarts"] {
        assert!(warnings.iter().any(|one| one.contains(told)), "{warnings:?}");
    }
    let odd = wrong(&with(&format!("{shared}trusted = [\"luck\"]\n")), &[], &[]);
    assert!(odd.iter().any(|one| one.contains("`luck`")), "{odd:?}");
}

#[test]
fn nodes_of_a_cluster_say_where_the_redis_is() {
    let shared = "[store]\nkind = \"redis\"\nnode = \"left\"\nseal_key = { file = \"seal.key\" }\n\
                  installation = \"one-installation\"\n[redis]\ncluster = [\"10.0.0.1:7000\", \"Redis-2.example.com\"]\n";
    let reading = read_in(&with(&format!("{shared}durability = \"replicated\"\n")), &[], &[]).unwrap();
    assert_eq!(reading.warnings, []);
    let redis = reading.config.redis.unwrap();
    assert_eq!(redis.fence, Some(std::time::Duration::from_secs(5)));
    let RedisPlace::Cluster(cluster) = redis.place else { panic!("no cluster") };
    let addresses = [("10.0.0.1".to_owned(), 7_000), ("redis-2.example.com".to_owned(), 6_379)];
    assert_eq!((cluster.addresses.as_slice(), cluster.tls), (addresses.as_slice(), true));
    for (more, fault) in [
        ("", "a failover by the `cluster` loses writes"),
        ("tls = false\n", "`redis.cluster` is without TLS to another machine"),
        ("url = \"redis://127.0.0.1\"\n", "`redis.cluster` cannot be combined with `redis.url`"),
        ("sentinels = [\"h\"]\nmaster = \"m\"\n", "`redis.cluster` cannot be combined with `redis.sentinels`"),
    ] {
        let told = wrong(&with(&format!("{shared}{more}")), &[], &[]);
        assert!(told.iter().any(|one| one.contains(fault)), "{more}: {told:?}");
    }
}

#[test]
fn an_address_that_moves_is_refused_in_production_unless_somebody_accepts_the_risk() {
    let shared = |host: &str, more: &str| {
        let store = "[store]\nkind = \"redis\"\nnode = \"left\"\nseal_key = { file = \"seal.key\" }\n";
        with(&format!("{store}[redis]\nurl = \"rediss://{host}\"\n{more}"))
    };
    for host in ["10.0.0.7", "[fd00::7]:6379", "localhost", "127.0.0.1"] {
        assert!(read_in(&shared(host, ""), &[], &[]).is_ok(), "{host}");
    }
    let told = wrong(&shared("redis.example.com", ""), &[], &[]);
    assert!(told.iter().any(|one| one.contains("the host of `redis.url` is a name")), "{told:?}");
    assert!(read_in(&shared("redis.example.com", "allow_split = true\n"), &[], &[]).is_ok());
    let useless = wrong(&shared("127.0.0.1", "fence_ms = 100\n"), &[], &[]);
    assert!(useless.iter().any(|one| one.contains("`redis.fence_ms` has no effect")), "{useless:?}");
}

#[test]
fn what_does_not_go_with_sentinels_is_told() {
    let sentinels = "sentinels = [\"127.0.0.1:1\"]\n";
    for (redis, fault) in [
        (
            format!("{sentinels}master = \"m\"\nurl = \"redis://127.0.0.1\"\n"),
            "`redis.sentinels` cannot be combined with `redis.url`",
        ),
        (sentinels.to_owned(), "`redis.sentinels` has no effect without `redis.master`"),
        ("master = \"m\"\n".to_owned(), "`redis.master` has no effect without `redis.sentinels`"),
        ("url = \"redis://127.0.0.1\"\ntls = true\n".to_owned(), "`redis.tls` has no effect without `redis.sentinels`"),
        (
            "url = \"redis://127.0.0.1\"\npassword = { file = \"seal.key\" }\n".to_owned(),
            "`redis.password` has no effect without `redis.sentinels`",
        ),
        (format!("{sentinels}master = \"m\"\nuser = \"u\"\n"), "`redis.user` has no effect without `redis.password`"),
        (
            format!("{sentinels}master = \"m\"\nsentinel_user = \"u\"\n"),
            "`redis.sentinel_user` has no effect without `redis.sentinel_password`",
        ),
        (
            format!("{sentinels}master = \"m\"\ntls = false\nca = \"ca.pem\"\n"),
            "`redis.ca` has no effect: `sentinels` is without TLS",
        ),
        ("sentinels = []\nmaster = \"m\"\n".to_owned(), "`redis.sentinels`: the list is empty"),
        (
            "sentinels = [\"redis://h:1\"]\nmaster = \"m\"\n".to_owned(),
            "`redis.sentinels`: the value is not a host and a port",
        ),
        ("nodes = 2\n".to_owned(), "`redis.nodes` has no effect without `redis.url`"),
    ] {
        let told = wrong(&with(&format!("[redis]\n{redis}")), &[("ca.pem", &certificate().0)], &[]);
        assert!(told.iter().any(|one| one.contains(fault)), "{redis}: {told:?}");
    }
}
