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

// stopRounds is the number of rounds that stop many pods at once.
const stopRounds = 3

// stopFigures measures the time from the removal of a manifest until SIGTERM arrives at the pod's
// process, which writes that time to a file, and compares it with StopContainer calls: for one
// pod, and for the last of many at once. With -upstream the upstream kubelet comes last, because
// it stops the sandboxes of all pods that it does not manage.
func stopFigures(ctx context.Context, endpoints []endpoint, binary, dir string, o options) error {
	all, err := peers(ctx, binary, o)
	if err != nil {
		return err
	}
	for i, e := range endpoints {
		var t table
		if err := stopsOn(ctx, &t, all, e, filepath.Join(dir, fmt.Sprint("stop-", i)), o); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
		t.print(e.name)
	}
	return nil
}

func stopsOn(ctx context.Context, t *table, all []peer, e endpoint, dir string, o options) (err error) {
	s := stops{notes: filepath.Join(dir, "notes"), o: o}
	if err := os.MkdirAll(s.notes, 0o755); err != nil {
		return err
	}
	if s.b, err = newBare(ctx, e, dir, o.image); err != nil {
		return err
	}
	defer s.b.close()
	if err := s.measure(ctx, t, "bare", s.stopBare); err != nil {
		return err
	}
	for _, p := range all {
		if s.a, err = startPeer(ctx, p, e, filepath.Join(dir, p.name), o.image); err == nil {
			err = s.measure(ctx, t, p.name, s.stopPods)
			s.a.stop()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// stops starts and stops pods. Their processes write the time of SIGTERM into the folder notes.
type stops struct {
	notes string
	o     options
	a     *agent
	b     *bare
	next  int
}

// measure stops one pod at a time, then many at once, several times each, and records the medians.
func (s *stops) measure(ctx context.Context, t *table, column string, stop func(ctx context.Context, n int) (time.Duration, error)) error {
	for _, m := range []struct {
		row      string
		times, n int
	}{
		{"one pod: file removed to SIGTERM", s.o.runs, 1},
		{fmt.Sprintf("%d pods at once: files removed to the last SIGTERM", s.o.stop), stopRounds, s.o.stop},
	} {
		var all []time.Duration
		for range m.times {
			took, err := stop(ctx, m.n)
			if err != nil {
				return err
			}
			all = append(all, took)
		}
		t.put(column, m.row, ms(median(all)))
	}
	return nil
}

func (s *stops) names(n int) []string {
	names := make([]string, n)
	for i := range names {
		s.next++
		names[i] = fmt.Sprintf("stop-%d", s.next)
	}
	return names
}

func (s *stops) stopPods(ctx context.Context, n int) (time.Duration, error) {
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
	return took, s.a.allGone(ctx)
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

// each calls do n times, at most atATime calls at once.
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

// ready waits until all processes handle SIGTERM, and 300 ms more for the machine to settle.
func (s *stops) ready(ctx context.Context, names []string) error {
	for _, name := range names {
		err := await(ctx, pollOne, name+" listens", func() bool {
			_, err := os.Stat(filepath.Join(s.notes, name))
			return err == nil
		})
		if err != nil {
			return err
		}
	}
	return sleep(ctx, 300*time.Millisecond)
}

// last returns the time from begin until the last SIGTERM.
func (s *stops) last(ctx context.Context, names []string, begin time.Time) (took time.Duration, err error) {
	for _, name := range names {
		err := await(ctx, pollOne, name+" ends", func() bool {
			text, _ := os.ReadFile(filepath.Join(s.notes, name)) // a missing file parses as no number
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
