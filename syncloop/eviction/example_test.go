package eviction_test

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/syncloop/eviction"
)

func Example() {
	thresholds, err := eviction.Settings{Hard: map[string]string{"memory.available": "100Mi"}}.Parse()
	if err != nil {
		fmt.Println(err)
		return
	}
	policy, now := eviction.Policy{Thresholds: thresholds, Transition: 5 * time.Minute}, time.Now()
	pods := []*v1.Pod{
		{ObjectMeta: metav1.ObjectMeta{Name: "small", UID: "1", Annotations: map[string]string{"kubernetes.io/config.source": "api"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "hog", UID: "2", Annotations: map[string]string{"kubernetes.io/config.source": "api"}}},
	}
	little, much := uint64(1<<20), uint64(1<<30)
	usage := eviction.Usage{
		Signals: map[eviction.Signal]eviction.Reading{eviction.MemoryAvailable: {Available: 80 << 20, Capacity: 8 << 30, Time: now}},
		Pods:    map[types.UID]eviction.PodUsage{"1": {Memory: &little}, "2": {Memory: &much}},
	}
	d := policy.Decide(eviction.State{}, usage, pods, now)
	victim, _ := policy.Candidate(d, usage, pods, now)
	fmt.Println(d.Pressure.Memory, victim.Pod.Name)
	fmt.Println(victim.Message)
	// Output:
	// true hog
	// The node was low on resource: memory. Threshold quantity: 100Mi, available: 80Mi.
}
