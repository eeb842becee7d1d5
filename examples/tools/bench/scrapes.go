package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// scraped are the pages that a monitoring system reads. limit is the agent's CPU time per request
// with 100 pods.
var scraped = []struct {
	path  string
	limit time.Duration
}{
	{"/stats/summary", 30 * time.Millisecond},
	{"/metrics", 50 * time.Millisecond},
	{"/metrics/resource", 50 * time.Millisecond},
	{"/metrics/cadvisor", 50 * time.Millisecond},
	{"/metrics/probes", 50 * time.Millisecond},
}

const scrapeRounds = 20

// scrapes measures the agent's CPU time for these pages.
func scrapes(ctx context.Context, a *agent, o options) error {
	for _, s := range scraped {
		var took []time.Duration
		size := 0
		used, err := spent(a.cmd.Process.Pid, func() (err error) {
			for range scrapeRounds {
				begin := time.Now()
				if size, err = a.read(ctx, s.path); err != nil {
					return err
				}
				took = append(took, time.Since(begin))
			}
			return nil
		})
		if err != nil {
			return err
		}
		fmt.Printf("  %-52s %10s CPU (limit for 100: %s), %s, %d KiB\n", fmt.Sprintf("%d pods: %s", o.burst, s.path),
			ms(used/scrapeRounds), s.limit, ms(median(took)), size>>10)
	}
	return scrapeFloor()
}

func (a *agent) read(ctx context.Context, path string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+path, nil)
	if err != nil {
		return 0, err
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, resp.Status, body)
	}
	return len(body), err
}
