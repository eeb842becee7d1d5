package summary

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
)

// longest is how long a request may wait for the runtime.
const longest = 20 * time.Second

// Stats serves /stats/summary; with only_cpu_and_memory=true the CPUAndMemory part.
func (p *Provider) Stats() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), longest)
		defer cancel()
		part := All
		if only, err := strconv.ParseBool(r.FormValue("only_cpu_and_memory")); err == nil && only {
			part = CPUAndMemory
		}
		s, err := p.Summary(ctx, part)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(s); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
}

// Resource serves /metrics/resource. A Summary that cannot be had is the metric
// resource_scrape_error.
func (p *Provider) Resource() http.Handler {
	return gathered(func(ctx context.Context) (prometheus.Gatherer, error) {
		s, err := p.Summary(ctx, CPUAndMemory)
		if err != nil {
			p.tell("resource", []error{err})
		}
		return resources(s), nil
	})
}

// Cadvisor serves /metrics/cadvisor.
func (p *Provider) Cadvisor() http.Handler {
	return gathered(func(ctx context.Context) (prometheus.Gatherer, error) { return p.cadvisor(ctx) })
}

func gathered(gather func(ctx context.Context) (prometheus.Gatherer, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), longest)
		defer cancel()
		g, err := gather(ctx)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		if err := write(w, r, g); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
}

// write writes metrics as the client wants them. They are compressed for speed: those of a
// hundred pods are two megabytes, and promhttp would take more time to compress them than
// it takes to read all cgroups.
func write(w http.ResponseWriter, r *http.Request, g prometheus.Gatherer) error {
	families, err := g.Gather()
	if err != nil {
		return err
	}
	format := expfmt.Negotiate(r.Header)
	w.Header().Set("Content-Type", string(format))
	var out io.Writer = w
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		compressed, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
		if err != nil {
			return err
		}
		defer compressed.Close()
		out = compressed
	}
	buffered := bufio.NewWriterSize(out, 64<<10)
	encoder := expfmt.NewEncoder(buffered, format)
	for _, family := range families {
		if err := encoder.Encode(family); err != nil {
			return err
		}
	}
	return buffered.Flush()
}
