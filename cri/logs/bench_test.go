package logs

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// discard is io.Discard without ReaderFrom and StringWriter.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// BenchmarkRead reads a log of 64 MiB from the page cache. The rate is in bytes of the file.
func BenchmarkRead(b *testing.B) {
	for _, tc := range []struct {
		name    string
		content int
		o       Options
	}{
		{"lines of 100 bytes", 60, Options{}},
		{"lines of 100 bytes with timestamps", 60, Options{Timestamps: true}},
		{"lines of 1000 bytes", 960, Options{}},
	} {
		b.Run(tc.name, func(b *testing.B) {
			line := []byte("2026-01-02T03:04:05.123456789Z stdout F " + strings.Repeat("x", tc.content-1) + "\n")
			path := filepath.Join(b.TempDir(), "0.log")
			require.NoError(b, os.WriteFile(path, bytes.Repeat(line, (64<<20)/len(line)), 0o600))
			r := newReader(b, ReaderConfig{})
			b.SetBytes(64 << 20)
			b.ReportAllocs()
			before := cpuTime(b)
			for b.Loop() {
				require.NoError(b, r.Read(b.Context(), Log{Path: path}, tc.o, discard{}, io.Discard))
			}
			// CPU time, because it is independent of other load.
			b.ReportMetric(float64(b.N)*64*1.048576/(cpuTime(b)-before).Seconds(), "MB/cpu-s")
		})
	}
}

func cpuTime(b *testing.B) time.Duration {
	var usage unix.Rusage
	require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkIdleFollowers follows 500 idle logs for five seconds.
func BenchmarkIdleFollowers(b *testing.B) {
	const n, watch = 500, 5 * time.Second
	empty := memory()
	stop := followMany(b, n)
	defer stop()
	time.Sleep(2 * time.Second) // wait for the rest of the start
	each := (memory() - empty) / n
	before, began := cpuTime(b), time.Now()
	time.Sleep(watch)
	used := cpuTime(b) - before
	b.ReportMetric(float64(used.Microseconds())/time.Since(began).Seconds(), "µs-cpu/s")
	b.ReportMetric(float64(each), "B/follower")
	b.ReportMetric(0, "ns/op")
}
