package pleg_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/pleg/plegtest"
)

var errTest = errors.New("test")

// rig is a PLEG on an in-memory runtime in a bubble.
type rig struct {
	*pleg.PLEG
	t    *testing.T
	rt   *plegtest.Runtime
	stop func() error

	mu     sync.Mutex
	events []pleg.Event
	health []error
}

func run(t *testing.T, cfg pleg.Config, rt *plegtest.Runtime) *rig {
	t.Helper()
	r := &rig{t: t, rt: rt}
	if cfg.Runtime == nil {
		cfg.Runtime = rt
	}
	record := cfg.OnEvent
	cfg.OnEvent = func(e pleg.Event) {
		if record != nil {
			record(e)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events, e)
	}
	cfg.OnHealth = func(err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.health = append(r.health, err)
	}
	p, err := pleg.New(cfg)
	require.NoError(t, err)
	r.PLEG = p
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	r.stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() { _ = r.stop() })
	synctest.Wait()
	return r
}

// take returns the events since the last call, as "type id".
func (r *rig) take() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, e := range r.events {
		out = append(out, string(e.Type)+" "+e.ID)
	}
	r.events = nil
	return out
}

func (r *rig) verdicts() []error {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.health)
}

func bubble(t *testing.T, f func(t *testing.T, rt *plegtest.Runtime)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, &plegtest.Runtime{}) })
}

func observe(t *testing.T, r *rig, uid types.UID) *observed.Pod {
	t.Helper()
	s, err := r.Observe(t.Context(), uid, time.Now())
	require.NoError(t, err)
	return s
}
