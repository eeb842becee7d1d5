package shutdown_test

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/syncloop/shutdown"
)

func ExampleGroups() {
	periods := shutdown.Periods(30*time.Second, 10*time.Second)
	pods := []*v1.Pod{pod("dns", 2_000_000_000, 30), pod("web", 0, 5), pod("batch", 100, 60)}
	for _, g := range shutdown.Groups(periods, pods) {
		for _, p := range g.Pods {
			fmt.Println(g.Priority, p.Name, g.Seconds(p))
		}
	}
	// Output:
	// 0 web 5
	// 0 batch 20
	// 2000000000 dns 10
}
