package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// stopRounds is how often many pods are stopped at once.
const stopRounds = 3

// stopFigures measures how long after a manifest was removed SIGTERM arrives at the
// pod's process, which writes that down, against how long after a StopContainer call: of
// one pod, and the last of many at once. Ours and bare ones take turns.
func stopFigures(ctx context.Context, endpoints []endpoint, binary, dir string, o options) error {
	for i, e := range endpoints {
		fmt.Printf("\n%s\n", e.name)
		if err := stopsOn(ctx, e, binary, filepath.Join(dir, fmt.Sprint("stop-", i)), o); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
	}
	return nil
}

func stopsOn(ctx context.Context, e endpoint, binary, dir string, o options) error {
	s := stops{notes: filepath.Join(dir, "notes")}
	if err := os.MkdirAll(s.notes, 0o755); err != nil {
		return err
	}
	var err error
	if s.b, err = newBare(ctx, e, dir, o.image); err != nil {
		return err
	}
	defer s.b.close()
	if s.a, err = startAgent(ctx, binary, e, dir, o.image); err != nil {
		return err
	}
	defer s.a.stop()
	one, err := s.times(ctx, o.runs, 1)
	if err != nil {
		return err
	}
	row("one pod: file removed to SIGTERM", median(one.ours), median(one.bare), 0)
	many, err := s.times(ctx, stopRounds, o.stop)
	if err != nil {
		return err
	}
	row(fmt.Sprintf("%d pods at once: files removed to the last SIGTERM", o.stop), median(many.ours), median(many.bare), 0)
	return nil
}

// stops lets pods write into notes when SIGTERM came.
type stops struct {
	notes string
	a     *agent
	b     *bare
	next  int
}

// stopTimes are how long it took until the last of some pods had its SIGTERM.
type stopTimes struct{ ours, bare []time.Duration }

// times stops n pods at once, so many times.
func (s *stops) times(ctx context.Context, times, n int) (t stopTimes, err error) {
	for range times {
		bare, err := s.stopBare(ctx, n)
		if err != nil {
			return t, err
		}
		ours, err := s.stopOurs(ctx, n)
		if err != nil {
			return t, err
		}
		t.bare, t.ours = append(t.bare, bare), append(t.ours, ours)
	}
	return t, nil
}

// names returns n names that were not used before.
func (s *stops) names(n int) []string {
	names := make([]string, n)
	for i := range names {
		s.next++
		names[i] = fmt.Sprintf("stop-%d", s.next)
	}
	return names
}

func (s *stops) stopOurs(ctx context.Context, n int) (time.Duration, error) {
	names := s.names(n)
	for _, name := range names {
		err := s.a.write(name, fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: bench, uid: %s}
spec:
  terminationGracePeriodSeconds: 10
  volumes: [{name: notes, hostPath: {path: %s}}]
  containers:
  - {name: main, image: "%s", imagePullPolicy: IfNotPresent, command: [/testprog, note, /notes/%s], volumeMounts: [{name: notes, mountPath: /notes}]}
`, name, name, s.notes, s.a.image, name))
		if err != nil {
			return 0, err
		}
	}
	err := s.a.awaitPods(ctx, pollMany, "all pods run", func(p map[string]v1.Pod) bool {
		return !slices.ContainsFunc(names, func(name string) bool { return !isRunning(p[name]) })
	})
	if err != nil {
		return 0, err
	}
	if err := s.ready(ctx, names); err != nil {
		return 0, err
	}
	begin := time.Now()
	for _, name := range names {
		if err := s.a.remove(name); err != nil {
			return 0, err
		}
	}
	took, err := s.last(ctx, names, begin)
	if err != nil {
		return 0, err
	}
	return took, s.a.awaitPods(ctx, pollMany, "all pods are gone", func(p map[string]v1.Pod) bool { return len(p) == 0 })
}

func (s *stops) stopBare(ctx context.Context, n int) (time.Duration, error) {
	names := s.names(n)
	sandboxes, containers := make([]string, n), make([]string, n)
	err := each(n, 4, func(i int) (err error) {
		sandboxes[i], containers[i], err = s.b.startWith(ctx, &runtimeapi.ContainerConfig{
			Command: []string{"/testprog", "note", "/notes/" + names[i]},
			Mounts:  []*runtimeapi.Mount{{ContainerPath: "/notes", HostPath: s.notes}},
		})
		return err
	})
	if err != nil {
		return 0, err
	}
	if err := s.ready(ctx, names); err != nil {
		return 0, err
	}
	begin := time.Now()
	err = each(n, n, func(i int) error { return s.b.client.StopContainer(ctx, containers[i], 10*time.Second) })
	if err != nil {
		return 0, err
	}
	took, err := s.last(ctx, names, begin)
	if err != nil {
		return 0, err
	}
	return took, each(n, 4, func(i int) error { return s.b.stop(ctx, sandboxes[i]) })
}

// each calls do n times, some at a time.
func each(n, atATime int, do func(i int) error) error {
	var wg sync.WaitGroup
	errs, places := make([]error, n), make(chan struct{}, atATime)
	for i := range n {
		wg.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			errs[i] = do(i)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// ready waits until all would notice a SIGTERM, and until the machine has settled.
func (s *stops) ready(ctx context.Context, names []string) error {
	for _, name := range names {
		err := s.a.await(ctx, pollOne, name+" listens", func() bool {
			_, err := os.Stat(filepath.Join(s.notes, name))
			return err == nil
		})
		if err != nil {
			return err
		}
	}
	settle := time.NewTimer(300 * time.Millisecond)
	defer settle.Stop()
	select {
	case <-settle.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// last returns how long after begin the last SIGTERM came.
func (s *stops) last(ctx context.Context, names []string, begin time.Time) (took time.Duration, err error) {
	for _, name := range names {
		err := s.a.await(ctx, pollOne, name+" ends", func() bool {
			text, _ := os.ReadFile(filepath.Join(s.notes, name)) // no number in a file that is not there
			at, err := strconv.ParseInt(string(text), 10, 64)
			took = max(took, time.Unix(0, at).Sub(begin))
			return err == nil
		})
		if err != nil {
			return 0, err
		}
	}
	return took, nil
}
