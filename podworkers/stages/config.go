package stages

import (
	"fmt"
	"slices"
	"time"

	"github.com/podwright/podwright/internal/fields"
)

// Config configures a List. The zero value is a list without stages.
type Config struct {
	// Stages are prepared in this order and released in reverse. A stage comes after the stages
	// that it depends on.
	Stages []Entry
}

const (
	// stepTimeout is the default of Entry.Timeout.
	stepTimeout = 2 * time.Minute
	// listTimeout bounds each call of a stage's Leftovers.
	listTimeout = 10 * time.Second
	// cancelGrace is the longest wait for a step after its context is done, by its caller and by
	// the next caller for the same pod.
	cancelGrace = time.Second
)

func (c Config) withDefaults() (Config, error) {
	f := fields.Of("stages: Config")
	c.Stages = slices.Clone(c.Stages)
	names := map[string]bool{}
	for i := range c.Stages {
		e := &c.Stages[i]
		field := fmt.Sprintf("Stages[%d]", i)
		f.Required(field+".Name", e.Name)
		f.Required(fmt.Sprintf("%s.Stage (%s)", field, e.Name), e.Stage)
		if names[e.Name] {
			f.Refuse("%s.Name: %q is a duplicate", field, e.Name)
		}
		if e.Release != Stopped && e.Release != Gone {
			f.Refuse("%s.Release (%s): %v is not Stopped or Gone", field, e.Name, e.Release)
		}
		fields.Number(f, field+".Timeout", &e.Timeout, stepTimeout)
		names[e.Name] = true
	}
	return c, f.Err()
}
