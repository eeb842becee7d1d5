// Package logging makes the log of a kubelet: lines of text, or JSON with the names that log
// collectors know from Kubernetes components (logging.format, --logging-format).
//
//	log, setVerbosity, err := logging.New(logging.Config{Format: logging.JSON, Output: os.Stderr})
//	log.Info("connected", "runtime", name)
//	// {"ts":1700000000000.25,"caller":"agent/connection.go:71","msg":"connected","v":0,"runtime":"containerd"}
//
// In JSON, ts is in milliseconds since 1970, v is the verbosity from which on a line is
// written, errors are texts under err, and durations are texts such as "1.5s". A line about
// an error has no v. It differs from the reference in three things: v is 0 or 4, since this
// log has two levels; a warning, which the reference does not have, carries
// "level":"WARN" besides; and an object is written as its fields, or as its error or text
// where it has one.
//
// Each line is written at once, whole, to one stream, so there is nothing to flush
// (logging.flushFrequency), and nothing is lost with the process.
//
// An example that runs: ExampleNew in logging_test.go.
package logging

import (
	"fmt"
	"io"
	"log/slog"
	"path"
	"strconv"
	"time"

	"github.com/podwright/podwright/internal/fields"
)

// The formats of a log.
const (
	Text = "text"
	JSON = "json"
)

// DebugVerbosity is the verbosity from which on everything is logged.
const DebugVerbosity = 4

// Config configures a log. Output is required.
type Config struct {
	// Format is Text or JSON; "" means Text.
	Format string
	// Verbosity is how much is logged: from DebugVerbosity on everything.
	Verbosity int
	// Output gets one write for each line.
	Output io.Writer
}

// New returns a log, and what changes its verbosity while it is used.
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
		handler = slog.NewTextHandler(cfg.Output, options)
	case JSON:
		options.AddSource, options.ReplaceAttr = true, rename
		handler = slog.NewJSONHandler(cfg.Output, options)
	default:
		return nil, nil, fmt.Errorf("logging: Config.Format: %q is neither %s nor %s", cfg.Format, Text, JSON)
	}
	return slog.New(handler), func(v int) { threshold.Set(level(v)) }, nil
}

func level(verbosity int) slog.Level {
	if verbosity >= DebugVerbosity {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// rename gives the attributes that slog makes itself the names of the reference. They are
// told from those of callers by their types.
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

// verbosity is what a line says of its level.
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

// short is a place in the source by its folder and file.
func short(s *slog.Source) string {
	folder, file := path.Split(s.File)
	return path.Join(path.Base(folder), file) + ":" + strconv.Itoa(s.Line)
}
