package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
)

// probePeriod is the period of the readiness probes, the shortest that a manifest allows.
const probePeriod = time.Second

// readyFigures measures the time from a server's readiness until /pods shows its pod as Ready,
// while all pods are probed.
func readyFigures(ctx context.Context, endpoints []endpoint, binary, dir string, o options) error {
	for i, e := range endpoints {
		fmt.Printf("\n%s, %d pods\n", e.name, o.ready)
		a, err := startAgent(ctx, binary, e, filepath.Join(dir, fmt.Sprint("ready-", i)), o.image)
		if err != nil {
			return err
		}
		err = readyEach(ctx, a, o.ready)
		a.stop()
		if err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
	}
	return nil
}

// readyEach makes the servers of n pods ready at random moments, in sequence.
func readyEach(ctx context.Context, a *agent, n int) error {
	s := newServing()
	defer s.Close()
	for i := range n {
		if err := a.addWith(waiter(i), s.readinessProbe(waiter(i))); err != nil {
			return err
		}
	}
	err := a.awaitPods(ctx, pollMany, "all pods run", func(p map[string]v1.Pod) bool {
		for i := range n {
			if !isRunning(p[waiter(i)]) || !s.wasProbed(waiter(i)) {
				return false
			}
		}
		return true
	})
	if err != nil {
		return err
	}
	var all, afterResponse []time.Duration
	for i := range n {
		began, seen, err := s.becomeReady(ctx, a, waiter(i))
		if err != nil {
			return err
		}
		all = append(all, seen.Sub(began))
		afterResponse = append(afterResponse, seen.Sub(s.firstResponse(waiter(i))))
	}
	printSpread("server ready to Ready in /pods", all, probePeriod+50*time.Millisecond)
	printSpread("  including: probe response to Ready in /pods", afterResponse, 50*time.Millisecond)
	return a.allEnd(ctx, n, waiter)
}

func waiter(i int) string { return fmt.Sprintf("ready-%d", i) }

func printSpread(row string, d []time.Duration, limit time.Duration) {
	d = slices.Sorted(slices.Values(d))
	fmt.Printf("  %-52s median %8s   p95 %8s   slowest %8s   (limit %s)\n",
		row, ms(median(d)), ms(d[len(d)*95/100]), ms(d[len(d)-1]), ms(limit))
}

// serving responds to the probes of all pods. The path of a probe is the pod's name.
type serving struct {
	*httptest.Server
	mu     sync.Mutex
	ready  map[string]bool
	probed map[string]bool
	first  map[string]time.Time // time of the first successful response
}

func newServing() *serving {
	s := &serving{ready: map[string]bool{}, probed: map[string]bool{}, first: map[string]time.Time{}}
	s.Server = httptest.NewServer(s)
	return s
}

func (s *serving) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pod := r.URL.Path[1:]
	s.probed[pod] = true
	if !s.ready[pod] {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if s.first[pod].IsZero() {
		s.first[pod] = time.Now()
	}
}

func (s *serving) wasProbed(pod string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.probed[pod]
}

func (s *serving) firstResponse(pod string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first[pod]
}

// becomeReady makes one pod's server ready at a random moment. It returns that time and the time at
// which /pods showed the pod as ready.
func (s *serving) becomeReady(ctx context.Context, a *agent, pod string) (began, seen time.Time, err error) {
	if err := sleep(ctx, rand.N(probePeriod)); err != nil {
		return began, seen, err
	}
	s.mu.Lock()
	s.ready[pod], began = true, time.Now()
	s.mu.Unlock()
	err = a.awaitPods(ctx, pollOne, pod+" is ready", func(pods map[string]v1.Pod) bool {
		seen = time.Now()
		p := pods[pod]
		return podReady(&p)
	})
	if err == nil && s.firstResponse(pod).IsZero() {
		err = fmt.Errorf("%s is ready without a probe", pod)
	}
	return began, seen, err
}

// readinessProbe returns the field of a container with the pod's probe.
func (s *serving) readinessProbe(pod string) string {
	return fmt.Sprintf(`readinessProbe: {periodSeconds: %d, httpGet: {host: 127.0.0.1, port: %d, path: /%s}}`,
		int(probePeriod.Seconds()), s.Listener.Addr().(*net.TCPAddr).Port, pod)
}
