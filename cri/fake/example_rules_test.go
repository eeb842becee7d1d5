package fake_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/podwright/podwright/cri/fake"
)

// In ExampleNewRules the second stop of pod web takes 20 ms and fails, and 30% of all lists fail.
// The same seed repeats the run.
func ExampleNewRules() {
	rules := must(fake.NewRules(42,
		fake.Rule{Call: "StopContainer", Pod: "web", Nth: 2, Latency: 20 * time.Millisecond, Err: errors.New("hung")},
		fake.Rule{Call: "ListContainers", Chance: 0.3, Err: errors.New("busy")}))
	rt := must(fake.New(fake.Config{Intercept: rules.Intercept}))
	defer rt.Close()
	for range 5 {
		_, err := rt.ListContainers(context.Background(), nil)
		fmt.Println(err)
	}
	fmt.Print(rules)
	// Output:
	// <nil>
	// <nil>
	// <nil>
	// <nil>
	// busy
	// seed 42
	// {Call: StopContainer, Pod: web, Nth: 2, Latency: 20ms, Err: hung}
	// {Call: ListContainers, Chance: 0.3, Err: busy}
}
