package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// reporter writes the testbed's messages, separate from the command's output.
type reporter struct {
	mu sync.Mutex
	w  io.Writer
}

func (r *reporter) line(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.w, "testbed: "+format+"\n", args...)
}

// step runs f and prints its name and duration. It announces a step that takes longer than 3 s.
func (r *reporter) step(name string, f func() error) error {
	begin := time.Now()
	announced := time.AfterFunc(3*time.Second, func() { r.line("%s ...", name) })
	err := f()
	announced.Stop()
	took := time.Since(begin).Round(10 * time.Millisecond)
	if err != nil {
		r.line("%s: failed after %v", name, took)
		return fmt.Errorf("%s: %w", name, err)
	}
	r.line("%s (%v)", name, took)
	return nil
}

// printEnd prints the last line of a run.
func (r *reporter) printEnd(event string, begin time.Time, left []string) {
	took := time.Since(begin).Round(10 * time.Millisecond)
	if len(left) == 0 {
		r.line("%s (%v), nothing left behind", event, took)
		return
	}
	r.line("%s (%v), LEFT BEHIND: %s", event, took, strings.Join(left, "; "))
}
