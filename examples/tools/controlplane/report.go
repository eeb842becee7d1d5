package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// reporter writes the program's messages, separate from the command's output.
type reporter struct {
	mu sync.Mutex
	w  io.Writer
}

func (r *reporter) line(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.w, "controlplane: "+format+"\n", args...)
}

// step runs f and prints its name and duration. It announces a step that takes longer than 3 s.
func (r *reporter) step(name string, f func() error) error {
	begin := time.Now()
	announced := time.AfterFunc(3*time.Second, func() { r.line("%s ...", name) })
	err := f()
	announced.Stop()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	r.line("%s (%v)", name, time.Since(begin).Round(10*time.Millisecond))
	return nil
}
