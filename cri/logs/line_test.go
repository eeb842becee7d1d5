package logs

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var at = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

func TestParseLine(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		want     Line
	}{
		{"full", stamp + "stdout F hello\n", Line{Timestamp: at, Stream: Stdout, Content: []byte("hello")}},
		{"without newline", stamp + "stdout F hello", Line{Timestamp: at, Stream: Stdout, Content: []byte("hello")}},
		{"partial", stamp + "stderr P hel", Line{Timestamp: at, Stream: Stderr, Partial: true, Content: []byte("hel")}},
		{"more tags", stamp + "stderr P:x:F hel", Line{Timestamp: at, Stream: Stderr, Partial: true, Content: []byte("hel")}},
		{"only the first tag marks a partial line", stamp + "stderr F:P hel", Line{Timestamp: at, Stream: Stderr, Content: []byte("hel")}},
		{"empty content", stamp + "stdout F \n", Line{Timestamp: at, Stream: Stdout, Content: []byte{}}},
		{"spaces stay", stamp + "stdout F   a  b ", Line{Timestamp: at, Stream: Stdout, Content: []byte("  a  b ")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ParseLine([]byte(tc.in))
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}

func TestParseLineRefuses(t *testing.T) {
	for name, in := range map[string]string{
		"empty":              "",
		"newline":            "\n",
		"timestamp only":     "2026-01-02T03:04:05Z",
		"no tags":            "2026-01-02T03:04:05Z stdout",
		"no space after tag": "2026-01-02T03:04:05Z stdout F",
		"empty tags":         "2026-01-02T03:04:05Z stdout  x",
		"bad timestamp":      "yesterday stdout F x",
		"bad stream":         "2026-01-02T03:04:05Z stdin F x",
		"JSON of docker":     `{"log":"hello\n","stream":"stdout","time":"2026-01-02T03:04:05.000000006Z"}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseLine([]byte(in))
			require.ErrorIs(t, err, ErrBadLine)
		})
	}
}

func FuzzParseLine(f *testing.F) {
	f.Add([]byte(stamp + "stdout F hello\n"))
	f.Add([]byte(stamp + "stderr P:x hel"))
	f.Add([]byte(`{"log":"hello\n","stream":"stdout","time":"2026-01-02T03:04:05.000000006Z"}`))
	f.Add([]byte("2026-01-02T03:04:05+02:00 stdout F \x00\xff"))
	f.Fuzz(func(t *testing.T, in []byte) {
		line, err := ParseLine(in)
		if err != nil {
			require.ErrorIs(t, err, ErrBadLine)
			return
		}
		if bytes.Contains(line.Content, []byte("\n")) {
			return // only invalid input has newlines inside
		}
		tag := " F "
		if line.Partial {
			tag = " P "
		}
		again := []byte(line.Timestamp.Format(time.RFC3339Nano) + " " + string(line.Stream) + tag)
		got, err := ParseLine(append(again, line.Content...))
		require.NoError(t, err)
		require.True(t, line.Timestamp.Equal(got.Timestamp))
		require.Equal(t, [3]any{line.Stream, line.Partial, string(line.Content)}, [3]any{got.Stream, got.Partial, string(got.Content)})
	})
}
