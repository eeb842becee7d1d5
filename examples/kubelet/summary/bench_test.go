package summary

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkScrape is what a scrape of 100 pods costs, with a container each: cpu-ms is the
// processors' time, which is not to pass 30 of a Summary, and 50 of the others.
func BenchmarkScrape(b *testing.B) {
	_, p := newScene(b, 100, nil)
	measuredAll(b, p)
	for path, h := range map[string]http.Handler{"summary": p.Stats(), "resource": p.Resource(), "cadvisor": p.Cadvisor()} {
		b.Run(path, func(b *testing.B) {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header.Set("Accept-Encoding", "gzip") // as Prometheus does
			begun := spent(b)
			for b.Loop() {
				w := httptest.NewRecorder()
				if h.ServeHTTP(w, r); w.Code != http.StatusOK {
					b.Fatal(w.Body)
				}
			}
			b.ReportMetric(float64(spent(b)-begun)/float64(b.N)/float64(time.Millisecond), "cpu-ms/op")
		})
	}
}

// spent is the processors' time of this process so far.
func spent(b *testing.B) time.Duration {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
