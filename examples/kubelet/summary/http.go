package summary

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/prometheus/common/expfmt"
)

// longest bounds a request, including its calls to the runtime.
const longest = 20 * time.Second

// Stats serves /stats/summary, and the CPUAndMemory part for only_cpu_and_memory=true.
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

// Resource serves /metrics/resource. If there is no Summary, it serves only resource_scrape_error.
func (p *Provider) Resource() http.Handler {
	return gathered(func(ctx context.Context) (families, error) {
		s, err := p.Summary(ctx, CPUAndMemory)
		if err != nil {
			p.logUnread("resource", []error{err})
		}
		return resources(s), nil
	})
}

// Cadvisor serves /metrics/cadvisor.
func (p *Provider) Cadvisor() http.Handler {
	return gathered(p.cadvisor)
}

func gathered(gather func(ctx context.Context) (families, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), longest)
		defer cancel()
		f, err := gather(ctx)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		if err := write(w, r, f); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
}

// write writes metrics in the format and encoding that the client accepts. It uses the fastest gzip
// level: a hundred pods have two megabytes, and promhttp would take longer to compress them than
// all cgroups take to read.
func write(w http.ResponseWriter, r *http.Request, f families) error {
	format := expfmt.Negotiate(r.Header)
	w.Header().Set("Content-Type", string(format))
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		return f.write(w, format)
	}
	w.Header().Set("Content-Encoding", "gzip")
	compressed, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return err
	}
	return errors.Join(f.write(compressed, format), compressed.Close())
}

func (f families) write(to io.Writer, format expfmt.Format) error {
	if format.FormatType() == expfmt.TypeTextPlain {
		return f.writeText(to)
	}
	encoder := expfmt.NewEncoder(to, format)
	all, err := f.Gather()
	for i := 0; err == nil && i < len(all); i++ {
		err = encoder.Encode(all[i])
	}
	return err
}
