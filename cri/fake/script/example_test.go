package script_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/fake/script"
)

// The first reply to CreateContainer is lost, and the container is there. In a
// test this would run in a synctest bubble, where the 20ms take no time.
func Example() {
	rules, err := script.Parse(`
		1st CreateContainer of pod web: do, then hang 20ms, then Unavailable "connection reset"
		2nd CreateContainer of pod web: take 5ms
	`)
	if err != nil {
		log.Fatal(err)
	}
	rt, err := fake.New(fake.Config{AnyImage: true, Programs: rules.Programs(nil)})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	player, err := script.New(script.Config{Script: rules, Runtime: rt})
	if err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	pod := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "prod", Uid: "1"}}
	sandbox, err := player.RunPodSandbox(ctx, pod, "")
	if err != nil {
		log.Fatal(err)
	}
	app := &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, Image: &runtimeapi.ImageSpec{Image: "busybox"},
	}
	_, err = player.CreateContainer(ctx, sandbox, app, pod)
	fmt.Println(err)
	list, err := player.ListContainers(ctx, nil)
	fmt.Println(len(list), err)
	for _, f := range player.Fired() {
		fmt.Println(f.Fired, f.Rule)
	}
	// Output:
	// rpc error: code = Unavailable desc = connection reset
	// 1 <nil>
	// 1 1st CreateContainer of pod web: do, then hang 20ms, then Unavailable "connection reset"
	// 0 2nd CreateContainer of pod web: take 5ms
}

// An error says where a script is wrong, and what was expected there.
func ExampleParse() {
	_, err := script.Parse("seed 7\n2nd StopContainer of pod a: hang 30 s")
	fmt.Println(err)
	var at *script.ParseError
	fmt.Println(errors.As(err, &at), at.Line, at.Column)
	// Output:
	// script: line 2, column 34: found '30', expected a duration such as 50ms
	// true 2 34
}

// Rules can be made without text.
func ExampleOnObject() {
	rule := script.OnObject("StopContainer", script.OfContainer("app", "prod/web"),
		script.HangFor(30*time.Second), script.Restart()).Nth(2)
	fmt.Println(rule)
	// Output:
	// 2nd StopContainer of container app of pod prod/web: hang 30s, then restart
}

// A script restarts the fake, with its state and without.
func ExampleConfig() {
	rules, err := script.Parse(`
		2nd ListContainers: restart
		3rd ListContainers: restart losing state, then Unavailable "node is gone"
	`)
	if err != nil {
		log.Fatal(err)
	}
	rt, err := fake.New(fake.Config{AnyImage: true})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	player, err := script.New(script.Config{
		Script:  rules,
		Runtime: rt,
		Restart: func(ctx context.Context, keepState bool) error {
			var opts fake.RestartOptions
			if !keepState {
				opts.Loss = fake.LoseAll // or LoseProcesses: a reboot
			}
			return rt.Restart(ctx, opts)
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	pod := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "prod", Uid: "1"}}
	sandbox, _ := player.RunPodSandbox(ctx, pod, "")
	_, _ = player.CreateContainer(ctx, sandbox, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, Image: &runtimeapi.ImageSpec{Image: "busybox"},
	}, pod)
	for range 4 {
		list, err := player.ListContainers(ctx, nil)
		fmt.Println(len(list), err)
	}
	fmt.Println("not used:", script.Script{Rules: player.Unused()})
	// Output:
	// 1 <nil>
	// 1 <nil>
	// 0 rpc error: code = Unavailable desc = node is gone
	// 0 <nil>
	// not used:
}

// Of a random script that fails, Reduce keeps the rules that matter. What a script
// is tried with returns an error instead of failing a test, since it is to fail often;
// in a bubble, it makes one of its own each time.
func ExampleReduce() {
	run := func(rules script.Script) error {
		rt, err := fake.New(fake.Config{AnyImage: true})
		if err != nil {
			return err
		}
		defer rt.Close()
		player, err := script.New(script.Config{Script: rules, Runtime: rt})
		if err != nil {
			return err
		}
		ctx := context.Background()
		for attempt := range uint32(20) { // a client that gives up at the first failure
			pod := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Uid: "1", Attempt: attempt}}
			if _, err := player.RunPodSandbox(ctx, pod, ""); err != nil {
				return err
			}
		}
		return nil
	}
	bounds := script.RandomConfig{Rules: 8, Calls: []string{"RunPodSandbox", "StopPodSandbox"}, MaxDelay: time.Millisecond}
	for seed := uint64(1); ; seed++ {
		rules := script.Random(seed, bounds)
		if err := run(rules); err == nil {
			continue
		}
		least := script.Reduce(rules, func(s script.Script) bool { return run(s) != nil })
		fmt.Printf("%d of %d rules:\n%s", len(least.Rules), len(rules.Rules), least)
		break
	}
	// Output:
	// 1 of 8 rules:
	// seed 1
	// 10th to 13th RunPodSandbox: hang 1ms, then Unknown "random fault"
}

// A random script is a function of its seed. Say which calls your code makes: most
// rules about all calls would be about others.
func ExampleRandom() {
	fmt.Print(script.Random(3, script.RandomConfig{Rules: 3, Pods: []string{"web"}, Calls: []string{"StopContainer", "StartContainer"}}))
	// Output:
	// seed 3
	// 1% of StartContainer of pod web: hang 22.269s, then DeadlineExceeded "random fault"
	// 19th StopContainer: hang 8.45s, then Internal "random fault"
	// 14th to 19th StopContainer of pod web: hang 8.41s, then DeadlineExceeded "random fault"
}
