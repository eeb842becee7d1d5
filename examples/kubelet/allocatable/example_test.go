package allocatable_test

import (
	"context"
	"fmt"

	"github.com/podwright/podwright/cri/cgroups"
	"github.com/podwright/podwright/examples/kubelet/allocatable"
	kernel "github.com/podwright/podwright/examples/kubelet/cgroups"
)

func Example() {
	tree, err := cgroups.NewTree(cgroups.Systemd, "")
	if err != nil {
		panic(err)
	}
	e, err := allocatable.New(allocatable.Config{
		Kernel: &kernel.Memory{}, Tree: tree, // on a machine: kernel.NewHost(cgroups.Systemd)
		Capacity: list("cpu", "4", "memory", "8Gi"),
		System:   list("memory", "1Gi"),
		Keys:     allocatable.Keys{Enforce: []string{allocatable.Pods}},
		Event:    func(kind, reason, message string) { fmt.Println(kind, reason, message) },
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(e.Enforce(context.Background()), e.Values().Files(cgroups.V2)["memory.max"])
	// Output:
	// Normal NodeAllocatableEnforced Updated Node Allocatable limit across pods
	// <nil> 7516192768
}
