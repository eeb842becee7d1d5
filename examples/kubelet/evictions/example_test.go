package evictions_test

import (
	"fmt"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podwright/podwright/examples/kubelet/evictions"
)

func ExamplePolicy() {
	policy, err := evictions.Policy(&kubeletv1beta1.KubeletConfiguration{EvictionHard: map[string]string{"memory.available": "200Mi", "pid.available": "5%"}})
	if err != nil {
		panic(err)
	}
	for _, t := range policy.Thresholds {
		fmt.Println(t.Signal, t.Value.Of(1<<30))
	}
	// Output:
	// memory.available 209715200
	// pid.available 53687092
}
