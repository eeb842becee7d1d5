package gc_test

import (
	"context"
	"fmt"
	"time"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/images/gc"
)

func ExampleCompute() {
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	plan := gc.Compute(gc.Input{
		Now: now, Started: now.Add(-time.Hour),
		Disk:   gc.Disk{Capacity: 1000, Available: 120},
		Policy: gc.Policy{HighPercent: 85, LowPercent: 80, MinAge: 2 * time.Minute},
		Images: []gc.Image{
			{ID: "running", InUse: true},
			{ID: "yesterday's", Size: 70, LastUsed: now.Add(-20 * time.Minute)},
			{ID: "never used", Size: 50},
		},
	})
	fmt.Println("to free:", plan.Free)
	for _, image := range plan.Unused {
		fmt.Println(image.ID)
	}
	// Output:
	// to free: 80
	// never used
	// yesterday's
}

// An agent with a remote runtime measures the disk itself and keeps the sandbox image.
func ExampleManager_Collect() {
	runtime := must(fake.New(fake.Config{Images: []fake.Image{{Name: "registry.example/pause:3"}, {Name: "registry.example/old:1", Size: 500}}}))
	defer runtime.Close()
	manager := must(gc.New(gc.Config{
		Images: runtime, Containers: runtime, Policy: gc.Policy{MinAge: time.Nanosecond}, CollectInterval: time.Minute,
		Keep:     []string{"registry.example/pause:3"},
		Disk:     func(context.Context) (gc.Disk, error) { return gc.Disk{Capacity: 1000, Available: 10}, nil },
		OnRemove: func(image gc.Image, _ gc.Reason) { fmt.Println("removed:", image.Size, "bytes") },
	}))
	fmt.Println(manager.Collect(context.Background()))
	// Output:
	// removed: 500 bytes
	// <nil>
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
