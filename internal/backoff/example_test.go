package backoff_test

import (
	"fmt"
	"time"

	"github.com/podwright/podwright/internal/backoff"
)

// A container crashes at each start.
func ExampleTable() {
	table := backoff.New(backoff.Config{})
	exit := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for range 3 {
		held := table.Until("web", exit)
		if held.IsZero() {
			fmt.Println("start at once")
			held = exit
		} else {
			fmt.Println("start after", held.Sub(exit))
		}
		table.Next("web", exit, held)
		exit = held // it starts, and crashes
	}
	// Output:
	// start at once
	// start after 10s
	// start after 20s
}
