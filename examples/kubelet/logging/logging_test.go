package logging_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/podwright/podwright/examples/kubelet/logging"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Lines have the field names of the reference: ts, caller, msg, v, err.
func TestJSON(t *testing.T) {
	for name, c := range map[string]struct {
		log  func(*slog.Logger)
		want string // without ts and caller
	}{
		"info":    {func(l *slog.Logger) { l.Info("test", "ns", "default", "podnum", 2) }, `{"v":0,"msg":"test","ns":"default","podnum":2}`},
		"debug":   {func(l *slog.Logger) { l.Debug("test") }, `{"v":4,"msg":"test"}`},
		"warning": {func(l *slog.Logger) { l.Warn("test") }, `{"v":0,"level":"WARN","msg":"test"}`},
		"error": {func(l *slog.Logger) { l.Error("wrong", "err", errors.New("broken"), "time", time.Microsecond) },
			`{"msg":"wrong","err":"broken","time":"1µs"}`},
		"no error": {func(l *slog.Logger) { l.Info("test", "err", error(nil)) }, `{"v":0,"msg":"test","err":null}`},
		"names of its own": {func(l *slog.Logger) { l.Info("test", "level", "high", "source", "file") },
			`{"v":0,"msg":"test","level":"high","source":"file"}`},
		"group":  {func(l *slog.Logger) { l.WithGroup("g").Info("test", "took", time.Second) }, `{"v":0,"msg":"test","g":{"took":"1s"}}`},
		"object": {func(l *slog.Logger) { l.Info("test", "pod", struct{ Name string }{"p"}) }, `{"v":0,"msg":"test","pod":{"Name":"p"}}`},
		"lines":  {func(l *slog.Logger) { l.Info("a\nb") }, `{"v":0,"msg":"a\nb"}`},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			log, _, err := logging.New(logging.Config{Format: logging.JSON, Verbosity: 4, Output: &out})
			require.NoError(t, err)
			before := float64(time.Now().UnixMicro()) / 1000
			c.log(log)
			require.Equal(t, 1, strings.Count(out.String(), "\n"), out.String())
			var line map[string]any
			require.NoError(t, json.Unmarshal(out.Bytes(), &line))
			require.GreaterOrEqual(t, line["ts"], before)
			require.LessOrEqual(t, line["ts"], float64(time.Now().UnixMicro())/1000)
			require.Regexp(t, `^logging/logging_test\.go:\d+$`, line["caller"])
			delete(line, "ts")
			delete(line, "caller")
			rest, err := json.Marshal(line)
			require.NoError(t, err)
			require.JSONEq(t, c.want, string(rest))
		})
	}
}

// Lines have klog's header and its structured values, one line each. The process ID has seven
// columns.
func TestText(t *testing.T) {
	for want, print := range map[string]func(*slog.Logger){
		`I| "test" ns="default" podnum=2 ok=true`: func(l *slog.Logger) { l.Info("test", "ns", "default", "podnum", 2, "ok", true) },
		`I| "test" of="another"`:                  func(l *slog.Logger) { l.With("of", "another").Debug("test") },
		`I| "say \"a\"\nb" took="1.5s" err="a\nb" pods=["a b"]`: func(l *slog.Logger) {
			l.Info("say \"a\"\nb", "took", 1500*time.Millisecond, "err", errors.New("a\nb"), "pods", []string{"a b"})
		},
		`I| "test" g.at={"Name":"p"} g.none=null`: func(l *slog.Logger) {
			l.WithGroup("g").Info("test", "at", struct{ Name string }{"p"}, "none", error(nil))
		},
		`W| "test"`:               func(l *slog.Logger) { l.Warn("test") },
		`E| "wrong" err="broken"`: func(l *slog.Logger) { l.Error("wrong", "err", errors.New("broken")) },
	} {
		var out bytes.Buffer
		log, _, err := logging.New(logging.Config{Verbosity: 4, Output: &out})
		require.NoError(t, err)
		print(log)
		severity, rest, _ := strings.Cut(want, "|")
		header := fmt.Sprintf(`\d{4} \d{2}:\d{2}:\d{2}\.\d{6} %7d logging_test\.go:\d+\]`, os.Getpid())
		require.Regexp(t, "^"+severity+header+regexp.QuoteMeta(rest)+"\n$", out.String())
	}
}

// A28: verbosity can change at run time, in each format.
func TestVerbosity(t *testing.T) {
	for _, format := range []string{logging.Text, logging.JSON, logging.Slog, ""} {
		var out bytes.Buffer
		log, set, err := logging.New(logging.Config{Format: format, Verbosity: 3, Output: &out})
		require.NoError(t, err)
		log.Debug("unseen")
		require.Empty(t, out.String())
		set(6)
		log.With("of", "another").Debug("seen")
		require.Contains(t, out.String(), "seen")
		require.Equal(t, format == logging.JSON, json.Valid(out.Bytes()))
		set(0)
		out.Reset()
		log.Debug("unseen")
		require.Empty(t, out.String())
	}
}

func TestBadConfig(t *testing.T) {
	_, _, err := logging.New(logging.Config{Format: "xml", Output: io.Discard})
	require.EqualError(t, err, `logging: Config.Format: "xml" is not one of text, json, slog`)
	_, _, err = logging.New(logging.Config{})
	require.EqualError(t, err, "logging: Config.Output is required")
}

func ExampleNew() {
	log, setVerbosity, err := logging.New(logging.Config{Format: logging.JSON, Output: os.Stderr})
	if err != nil {
		panic(err)
	}
	log.Debug("not logged")
	setVerbosity(logging.DebugVerbosity)
	log.Debug("logged")
	// Output:
}
