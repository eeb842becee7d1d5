// Package logging creates the log of a kubelet: klog's text or JSON, as other Kubernetes components
// write them, or slog's text (logging.format, --logging-format).
//
//	text  I1114 22:13:20.000250    4711 connection.go:71] "connected" runtime="containerd"
//	json  {"ts":1700000000000.25,"caller":"agent/connection.go:71","msg":"connected","v":0,"runtime":"containerd"}
//	slog  time=2023-11-14T22:13:20.000Z level=INFO msg=connected runtime=containerd
//
//	log, setVerbosity, err := logging.New(logging.Config{Format: logging.JSON, Output: os.Stderr})
//	log.Info("connected", "runtime", name)
//
// In JSON, ts is in milliseconds since 1970, v is the lowest verbosity at which the line is logged,
// errors are texts under err, and durations are texts such as "1.5s". An error line has no v. There
// are three differences from the reference: v is 0 or 4, because this log has two levels; a
// warning, which the reference does not have, also has "level":"WARN"; and an object is written as
// its fields, or as its error or text if it has one.
//
// Each line is one write, so there is no buffer to flush (logging.flushFrequency), and no line is
// lost when the process exits.
//
// Runnable example: ExampleNew in logging_test.go.
package logging

import (
	"fmt"
	"io"
	"log/slog"
	"path"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2/textlogger"

	"github.com/podwright/podwright/internal/fields"
)

// Formats of a log.
const (
	Text = "text"
	JSON = "json"
	Slog = "slog"
)

// DebugVerbosity is the verbosity at which all lines are logged.
const DebugVerbosity = 4

// Config configures a log. Output is required.
type Config struct {
	// Format is Text, JSON or Slog. Default: Text.
	Format string
	// Verbosity enables debug lines if it is at least DebugVerbosity.
	Verbosity int
	// Output receives one write per line.
	Output io.Writer
}

// New returns a log, and a function that changes its verbosity. Both are safe for concurrent use.
func New(cfg Config) (log *slog.Logger, setVerbosity func(int), err error) {
	if err := fields.Required("logging: Config.Output", cfg.Output); err != nil {
		return nil, nil, err
	}
	threshold := new(slog.LevelVar)
	threshold.Set(level(cfg.Verbosity))
	options := &slog.HandlerOptions{Level: threshold}
	var handler slog.Handler
	switch cfg.Format {
	case "", Text:
		text := textlogger.NewConfig(textlogger.Verbosity(cfg.Verbosity), textlogger.Output(cfg.Output))
		set := func(v int) { _ = text.Verbosity().Set(strconv.Itoa(v)) } // a number is valid
		return slog.New(logr.ToSlogHandler(textlogger.NewLogger(text))), set, nil
	case Slog:
		handler = slog.NewTextHandler(cfg.Output, options)
	case JSON:
		options.AddSource, options.ReplaceAttr = true, rename
		handler = slog.NewJSONHandler(cfg.Output, options)
	default:
		return nil, nil, fmt.Errorf("logging: Config.Format: %q is not one of %s, %s, %s", cfg.Format, Text, JSON, Slog)
	}
	return slog.New(handler), func(v int) { threshold.Set(level(v)) }, nil
}

func level(verbosity int) slog.Level {
	if verbosity >= DebugVerbosity {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// rename gives slog's own attributes the names of the reference. It recognizes them by their types,
// since callers may use the same keys.
func rename(groups []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		return slog.String(a.Key, a.Value.Duration().String())
	}
	if len(groups) > 0 {
		return a
	}
	switch value := a.Value.Any().(type) {
	case time.Time:
		if a.Key == slog.TimeKey {
			return slog.Float64("ts", float64(value.UnixMicro())/1000)
		}
	case *slog.Source:
		if a.Key == slog.SourceKey {
			return slog.String("caller", short(value))
		}
	case slog.Level:
		if a.Key == slog.LevelKey {
			return verbosity(value)
		}
	}
	return a
}

// verbosity returns the attributes that represent a level.
func verbosity(l slog.Level) slog.Attr {
	switch {
	case l >= slog.LevelError:
		return slog.Attr{}
	case l >= slog.LevelWarn:
		return slog.Attr{Value: slog.GroupValue(slog.Int("v", 0), slog.String(slog.LevelKey, l.String()))}
	case l >= slog.LevelInfo:
		return slog.Int("v", 0)
	default:
		return slog.Int("v", DebugVerbosity)
	}
}

// short returns a source position as folder/file:line.
func short(s *slog.Source) string {
	folder, file := path.Split(s.File)
	return path.Join(path.Base(folder), file) + ":" + strconv.Itoa(s.Line)
}
