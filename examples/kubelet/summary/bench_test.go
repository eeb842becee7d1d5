package summary

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/cri/stats"
)

// BenchmarkScrape is what a scrape of 100 pods costs, with a container each: cpu-ms is the
// processors' time, which is not to pass 30 of a Summary, and 50 of the others.
func BenchmarkScrape(b *testing.B) {
	for version, name := range map[stats.Version]string{stats.V1: "v1", stats.V2: "v2"} {
		_, p := newSceneOf(b, version, 100, nil)
		measuredAll(b, p)
		for path, h := range map[string]http.Handler{"summary": p.Stats(), "resource": p.Resource(), "cadvisor": p.Cadvisor()} {
			b.Run(name+"/"+path, func(b *testing.B) {
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
}

// spent is the processors' time of this process so far.
func spent(b *testing.B) time.Duration {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// recordedStat is what the kernel has shown of a container (6.18, cgroup v1).
const recordedStat = `cache 5332992
rss 225280
rss_huge 0
shmem 0
mapped_file 0
dirty 5242880
writeback 0
workingset_refault_anon 0
workingset_refault_file 22
swap 0
swapcached 0
pgpgin 371
pgpgout 287
pgfault 481
pgmajfault 1
inactive_anon 151552
active_anon 8192
inactive_file 5332992
active_file 0
unevictable 0
hierarchical_memory_limit 104857600
hierarchical_memsw_limit 9223372036854771712
total_cache 5332992
total_rss 225280
total_rss_huge 0
total_shmem 0
total_mapped_file 0
total_dirty 5242880
total_writeback 0
total_workingset_refault_anon 0
total_workingset_refault_file 22
total_swap 0
total_swapcached 0
total_pgpgin 371
total_pgpgout 287
total_pgfault 481
total_pgmajfault 1
total_inactive_anon 151552
total_active_anon 8192
total_inactive_file 5332992
total_active_file 0
total_unevictable 0`
