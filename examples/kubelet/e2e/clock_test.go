package e2e_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/podwright/podwright/examples/testbed/tb"
)

// A runtime whose clock is an hour ahead or behind changes nothing that matters: pods
// become ready, what crashes is held back, for as long as it should be, a pod with a
// deadline of half an hour is not over, nothing is collected that is needed, and a kubelet
// that is restarted leaves alone what runs.
func TestRuntimeWithAnotherClock(t *testing.T) {
	images := tb.Images(t)
	program(t)
	for _, rt := range tb.Turns(t) {
		t.Run(rt.Name, func(t *testing.T) {
			t.Parallel()
			for _, ahead := range []time.Duration{-time.Hour, time.Hour} { // two kubelets would stop each other's pods
				t.Run(ahead.String(), func(t *testing.T) { anotherClock(t, rt, images, ahead) })
			}
		})
	}
}

func anotherClock(t *testing.T, rt tb.Runtime, images tb.ImageNames, ahead time.Duration) {
	clock := rt.WithClock(t)
	clock.Set(ahead)
	s := newScene(t, rt, images, options{endpoint: clock.Endpoint})
	s.start(t)
	untouched := s.bystander(t)
	limited := newPod("limited", shell("main", s.images.Busybox, untilTerm))
	limited.Spec.ActiveDeadlineSeconds = new(int64(1800))
	limited.Spec.Containers[0].ReadinessProbe = execProbe("true")
	limited.Spec.Containers[0].ReadinessProbe.InitialDelaySeconds = 2
	s.place(t, "limited.yaml", limited)
	before := s.becomesReady(t, "limited")
	s.place(t, "crash.yaml", newPod("crash", testprog(s.images.Testprog, "exit", "3")))
	s.crashLooping(t, "crash", 1)
	s.crashLooping(t, "crash", 2)
	s.kill(t)
	s.start(t)
	s.running(t, "limited")
	hold(t, 5*time.Second, "it goes on", func() error {
		_, c, err := s.container("crash", "main")
		if err == nil && c.RestartCount > 3 {
			err = fmt.Errorf("%d restarts", c.RestartCount)
		}
		return errors.Join(err, s.untouched(before, "limited"))
	})
	untouched()
}
