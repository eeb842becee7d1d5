package logs

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func newReader(t testing.TB, cfg ReaderConfig) *Reader {
	t.Helper()
	r, err := NewReader(cfg)
	require.NoError(t, err)
	return r
}

type writes struct{ all []string }

func (w *writes) Write(p []byte) (int, error) {
	w.all = append(w.all, string(p))
	return len(p), nil
}

// readLog reads a log to its end, both streams into one writer.
func readLog(t *testing.T, path string, o Options) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, newReader(t, ReaderConfig{}).Read(t.Context(), Log{Path: path}, o, &out, &out))
	return out.String()
}

func TestRead(t *testing.T) {
	const (
		t1 = "2026-01-02T03:04:05.1Z "
		t2 = "2026-01-02T03:04:06Z "
		t3 = "2026-01-02T03:04:07.123456789+02:00 "
	)
	three := t1 + "stdout F one\n" + t1 + "stderr F two\n" + t2 + "stdout F three\n"
	parts := t1 + "stdout P a\n" + t2 + "stdout P b\n" + t2 + "stdout F c\n"
	tests := []struct {
		name, file string
		options    Options
		want       string
	}{
		{"empty", "", Options{}, ""},
		{"everything", three, Options{}, "one\ntwo\nthree\n"},
		{"no lines", three, Options{TailLines: new(int64(0))}, ""},
		{"last line", three, Options{TailLines: new(int64(1))}, "three\n"},
		{"all lines", three, Options{TailLines: new(int64(3))}, "one\ntwo\nthree\n"},
		{"more lines than there are", three, Options{TailLines: new(int64(9))}, "one\ntwo\nthree\n"},
		{"parts count as lines", parts, Options{TailLines: new(int64(2))}, "bc\n"},
		{"an unterminated line is extra", three + t2 + "stdout F fo", Options{TailLines: new(int64(1))}, "three\nfo"},
		{"an unterminated line alone", three + t2 + "stdout F fo", Options{TailLines: new(int64(0))}, "fo"},
		{"half a header", three + "2026-01-", Options{}, "one\ntwo\nthree\n"},
		{"limit", three, Options{LimitBytes: 6}, "one\ntw"},
		{"limit at the end of a line", three, Options{LimitBytes: 4}, "one\n"},
		{"limit in a timestamp", three, Options{LimitBytes: 10, Timestamps: true}, "2026-01-02"},
		{"limit beyond the end", three, Options{LimitBytes: 1000}, "one\ntwo\nthree\n"},
		{"timestamps have nine digits", t1 + "stdout F a\n" + t2 + "stdout F b\n" + t3 + "stdout F c\n", Options{Timestamps: true},
			"2026-01-02T03:04:05.100000000Z a\n2026-01-02T03:04:06.000000000Z b\n2026-01-02T03:04:07.123456789+02:00 c\n"},
		{"timestamp of the first part only", parts + t2 + "stdout F d\n", Options{Timestamps: true},
			"2026-01-02T03:04:05.100000000Z abc\n2026-01-02T03:04:06.000000000Z d\n"},
		{"timestamps of streams that interleave", t1 + "stdout P a\n" + t2 + "stderr F x\n" + t2 + "stdout F b\n", Options{Timestamps: true},
			"2026-01-02T03:04:05.100000000Z a2026-01-02T03:04:06.000000000Z x\nb\n"},
		{"since", three, Options{SinceTime: time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC)}, "three\n"},
		{"since looks at the first part", parts, Options{SinceTime: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}, "abc\n"},
		{"bad lines are skipped", "rubbish\n" + t1 + "stdout F a\n\nmore\n" + t1 + "stdout F b\n", Options{}, "a\nb\n"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, readLog(t, write(t, tc.file), tc.options))
		})
	}
}

func TestReadSinceIsTheLater(t *testing.T) {
	now := time.Now()
	file := ""
	for _, ago := range []time.Duration{time.Hour, time.Minute, time.Second} {
		file += now.Add(-ago).UTC().Format(time.RFC3339Nano) + " stdout F " + ago.String() + "\n"
	}
	path := write(t, file)
	for _, tc := range []struct {
		o    Options
		want string
	}{
		{Options{Since: 10 * time.Minute}, "1m0s\n1s\n"},
		{Options{Since: 10 * time.Minute, SinceTime: now.Add(-2 * time.Hour)}, "1m0s\n1s\n"},
		{Options{Since: 2 * time.Hour, SinceTime: now.Add(-30 * time.Second)}, "1s\n"},
	} {
		require.Equal(t, tc.want, readLog(t, path, tc.o))
	}
}

func TestReadStreams(t *testing.T) {
	path := write(t, stamp+"stdout F one\n"+stamp+"stderr F two\n"+stamp+"stdout F three\n")
	read := func(o Options, stdout, stderr io.Writer) {
		require.NoError(t, newReader(t, ReaderConfig{}).Read(t.Context(), Log{Path: path}, o, stdout, stderr))
	}
	var out, err, limited, onlyErr writes
	read(Options{}, &out, &err)
	require.Equal(t, []string{"", "one\n", "three\n"}, out.all, "nothing first, then lines")
	require.Equal(t, []string{"", "two\n"}, err.all)
	// A dropped stream does not count.
	read(Options{LimitBytes: 6}, nil, &onlyErr)
	require.Equal(t, []string{"", "two\n"}, onlyErr.all)
	read(Options{LimitBytes: 6}, &limited, nil)
	require.Equal(t, "one\nth", strings.Join(limited.all, ""))
	read(Options{}, nil, nil)
}

func TestReadLongLines(t *testing.T) {
	long := strings.Repeat("0123456789", 30000)
	for name, tc := range map[string]struct {
		file, want string
		o          Options
	}{
		"full":                 {stamp + "stdout F " + long + "\n" + stamp + "stdout F x\n", long + "\nx\n", Options{}},
		"partial":              {stamp + "stdout P " + long + "\n" + stamp + "stdout F x\n", long + "x\n", Options{}},
		"unterminated":         {stamp + "stdout F " + long, long, Options{}},
		"rubbish":              {long + "\n" + stamp + "stdout F x\n", "x\n", Options{}},
		"timestamps come once": {stamp + "stdout F " + long + "\n", stamp + long + "\n", Options{Timestamps: true}},
	} {
		t.Run(name, func(t *testing.T) {
			got := readLog(t, write(t, tc.file), tc.o)
			require.Len(t, got, len(tc.want))
			require.Equal(t, tc.want, got)
		})
	}
}

// A JSON line of docker at any position is refused with the file's name.
func TestDockerLinesAreRefused(t *testing.T) {
	docker := `{"log":"a\n","stream":"stderr","time":"2026-01-02T03:04:05Z"}`
	for name, file := range map[string]string{
		"all":          docker + "\n",
		"a later one":  one + docker + "\n",
		"unterminated": one + docker[:9],
		"long":         `{"log":"` + strings.Repeat("0123456789", 30000) + `\n"}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, file)
			var out bytes.Buffer
			err := newReader(t, ReaderConfig{}).Read(t.Context(), Log{Path: path}, Options{}, &out, &out)
			require.ErrorIs(t, err, ErrDockerLine)
			require.ErrorIs(t, err, ErrBadLine)
			require.ErrorContains(t, err, path)
			_, err = Tail(t.Context(), path, 0, 0)
			require.ErrorIs(t, err, ErrDockerLine)
			require.ErrorContains(t, err, path)
		})
	}
}

type badWriter struct{ good int }

var errBadWriter = errors.New("the client is gone")

func (w *badWriter) Write(p []byte) (int, error) {
	if w.good--; w.good < 0 {
		return 0, errBadWriter
	}
	return len(p), nil
}

func TestReadErrors(t *testing.T) {
	r := newReader(t, ReaderConfig{})
	path := write(t, stamp+"stdout F one\n"+stamp+"stderr F two\n")
	none := filepath.Join(t.TempDir(), "none")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tc := range []struct {
		ctx  context.Context
		path string
		o    Options
		is   error
		says string
	}{
		{t.Context(), none, Options{}, fs.ErrNotExist, ""},
		{t.Context(), filepath.Join(none, "0.log"), Options{Follow: true}, fs.ErrNotExist, ""},
		{t.Context(), t.TempDir(), Options{}, nil, "not a regular file"},
		{cancelled, path, Options{}, context.Canceled, ""},
		{cancelled, path, Options{Follow: true}, context.Canceled, ""},
		{t.Context(), path, Options{TailLines: new(int64(-1))}, nil, "TailLines"},
		{t.Context(), path, Options{LimitBytes: -1}, nil, "LimitBytes"},
		{t.Context(), path, Options{Since: -1}, nil, "Since"},
	} {
		err := r.Read(tc.ctx, Log{Path: tc.path}, tc.o, io.Discard, nil)
		require.ErrorContains(t, err, tc.says)
		if tc.is != nil {
			require.ErrorIs(t, err, tc.is)
		}
	}
	for good := range 3 {
		w := &badWriter{good: good}
		require.ErrorIs(t, r.Read(t.Context(), Log{Path: path}, Options{Follow: true}, w, w), errBadWriter, good)
	}
}

func TestReadThroughLink(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link.log")
	require.NoError(t, os.Symlink(write(t, one), link))
	require.Equal(t, "one\n", readLog(t, link, Options{}))
}

// C42: in the middle of a rotation, or after a crash there, the newest uncompressed rotated file
// replaces the log.
func TestReadInTheGapOfARotation(t *testing.T) {
	path := write(t, one)
	require.NoError(t, os.Rename(path, path+".20260102-030405"))
	newest := path + ".20260102-030406"
	require.NoError(t, os.WriteFile(newest, []byte(two), 0o600))
	require.Equal(t, "two\n", readLog(t, path, Options{}))
	require.NoError(t, compress(t.Context(), newest))
	require.Equal(t, "one\n", readLog(t, path, Options{TailLines: new(int64(5))}), "one that is compressed does not")
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(stamp+"stdout F one\nrubbish\n"+stamp+"stderr P two"), uint8(2), uint16(0), uint16(0), true)
	f.Add([]byte(stamp+"stdout P a\n"+stamp+"stdout F b\n"), uint8(200), uint16(2), uint16(65400), false)
	f.Add([]byte("0000-01-01T00:00:00Z stdout F \n"), uint8(200), uint16(0), uint16(0), true)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, in []byte, tail uint8, limit, pad uint16, timestamps bool) {
		if bytes.Contains(append([]byte("\n"), in...), []byte("\n{")) {
			return // refused
		}
		text := stamp + "stdout F " + strings.Repeat("p", int(pad)) + "\n" + string(in)
		path := filepath.Join(dir, "0.log")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		o := Options{LimitBytes: int64(limit), Timestamps: timestamps}
		if tail < 200 {
			o.TailLines = new(int64(tail))
		}
		require.Equal(t, byTheBook(text, o), readLog(t, path, o))
	})
}

const stampLayout = "2006-01-02T15:04:05.000000000Z07:00"

// byTheBook is a simple reference implementation of Read.
func byTheBook(text string, o Options) string {
	physical := strings.SplitAfter(text, "\n")
	if n := len(physical) - 1; o.TailLines != nil && n > int(*o.TailLines) {
		physical = physical[n-int(*o.TailLines):]
	}
	out := ""
	inside := map[Stream]bool{}
	for _, p := range physical {
		line, err := ParseLine([]byte(p))
		if err != nil {
			continue
		}
		if o.Timestamps && !inside[line.Stream] {
			out += line.Timestamp.Format(stampLayout) + " "
		}
		out += string(line.Content)
		inside[line.Stream] = line.Partial || !strings.HasSuffix(p, "\n")
		if !inside[line.Stream] {
			out += "\n"
		}
	}
	if o.LimitBytes > 0 && int64(len(out)) > o.LimitBytes {
		out = out[:o.LimitBytes]
	}
	return out
}

func TestChoose(t *testing.T) {
	for _, tc := range []struct {
		name     string
		in       Instances
		previous bool
		want     string
		is       error
		says     string
	}{
		{"previous", Instances{State: StateRunning, ID: "b", LastID: "a"}, true, "a", nil, ""},
		{"previous while waiting", Instances{State: StateWaiting, LastID: "a"}, true, "a", nil, ""},
		{"no previous", Instances{Container: "app", State: StateRunning, ID: "b"}, true, "", ErrNoPrevious, `"app" not found`},
		{"running", Instances{State: StateRunning, ID: "b", LastID: "a"}, false, "b", nil, ""},
		{"terminated", Instances{State: StateTerminated, ID: "b", LastID: "a"}, false, "b", nil, ""},
		{"terminated without ID", Instances{State: StateTerminated, LastID: "a"}, false, "a", nil, ""},
		{"terminated without any", Instances{State: StateTerminated}, false, "", ErrNoLogs, "has terminated"},
		{"running without ID is not the one before", Instances{State: StateRunning, LastID: "a"}, false, "", ErrNoLogs, "running"},
		{"waits between crashes", Instances{State: StateWaiting, Reason: "CrashLoopBackOff", LastID: "a"}, false, "a", nil, ""},
		{"waits", Instances{Container: "app", State: StateWaiting, Reason: "ContainerCreating"}, false, "", ErrNoLogs, `"app" is waiting to start: ContainerCreating`},
		{"waits for its image", Instances{State: StateWaiting, Reason: "ErrImagePull"}, false, "", ErrNoLogs, "ErrImagePull: image can't be pulled"},
		{"waits longer for its image", Instances{State: StateWaiting, Reason: "ImagePullBackOff"}, false, "", ErrNoLogs, "trying and failing to pull image"},
		{"waits for nothing known", Instances{State: StateWaiting}, false, "", ErrNoLogs, "is waiting to start"},
		{"not in the status", Instances{Container: "app"}, false, "", ErrNoLogs, `"app" is not available`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := tc.in.Choose(tc.previous)
			require.Equal(t, tc.want, got)
			require.ErrorIs(t, err, tc.is)
			if tc.says != "" {
				require.ErrorContains(t, err, tc.says)
			}
		})
	}
}
