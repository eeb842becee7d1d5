package logs

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// discard is io.Discard without ReaderFrom and StringWriter.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// BenchmarkRead reads a log of 64 MiB from the page cache: bytes of the file.
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
			for b.Loop() {
				require.NoError(b, r.Read(b.Context(), Log{Path: path}, tc.o, discard{}, io.Discard))
			}
		})
	}
}
