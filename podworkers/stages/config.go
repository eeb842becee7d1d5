package stages

import (
	"fmt"
	"slices"
	"time"

	"github.com/podwright/podwright/internal/required"
)

// Config configures a List. The zero value is a list without stages.
type Config struct {
	// Stages are prepared in this order and released in reverse. What a stage builds
	// on stands before it.
	Stages []Entry
	// StepTimeout bounds each Prepare and Release of a stage: its context ends then.
	// Zero means 2 min.
	StepTimeout time.Duration
	// ListTimeout bounds each call of a stage's Leftovers. Zero means 10 s.
	ListTimeout time.Duration
	// Patience is how long a step is waited for after its context has ended, by its
	// caller and by those who want to do something with the same pod. Zero means 1 s.
	Patience time.Duration
}

func (c Config) withDefaults() (Config, error) {
	if err := durations([]duration{
		{"Config.StepTimeout", &c.StepTimeout, 2 * time.Minute},
		{"Config.ListTimeout", &c.ListTimeout, 10 * time.Second},
		{"Config.Patience", &c.Patience, time.Second},
	}); err != nil {
		return c, err
	}
	c.Stages = slices.Clone(c.Stages)
	names := map[string]bool{}
	for i := range c.Stages {
		e := &c.Stages[i]
		field := fmt.Sprintf("Config.Stages[%d]", i)
		switch {
		case e.Name == "":
			return c, fmt.Errorf("stages: %s.Name is required", field)
		case names[e.Name]:
			return c, fmt.Errorf("stages: %s.Name: %q is in the list already", field, e.Name)
		case e.Release != Stopped && e.Release != Gone:
			return c, fmt.Errorf("stages: %s.Release (%s): %v is no moment", field, e.Name, e.Release)
		}
		if err := required.Field(fmt.Sprintf("stages: %s.Stage (%s)", field, e.Name), e.Stage); err != nil {
			return c, err
		}
		names[e.Name] = true
		if err := durations([]duration{{field + ".Timeout", &e.Timeout, c.StepTimeout}}); err != nil {
			return c, err
		}
	}
	return c, nil
}

// duration is a field with its default.
type duration struct {
	field string
	value *time.Duration
	zero  time.Duration
}

func durations(fields []duration) error {
	for _, d := range fields {
		switch {
		case *d.value < 0:
			return fmt.Errorf("stages: %s is negative: %v", d.field, *d.value)
		case *d.value == 0:
			*d.value = d.zero
		}
	}
	return nil
}
