package gc_test

import (
	"fmt"
	"time"

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
