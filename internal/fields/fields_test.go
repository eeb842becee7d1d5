package fields

import (
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRequired(t *testing.T) {
	var reader *strings.Reader
	var typed io.Reader = reader
	for name, value := range map[string]any{"nil": nil, "typed nil": typed, "text": "", "func": (func())(nil), "map": map[string]int(nil), "chan": (chan int)(nil)} {
		f := Of("pkg: Config")
		f.Required("X", value)
		require.EqualError(t, f.Err(), "pkg: Config.X is required", name)
		require.EqualError(t, Required("pkg: Serve: x", value), "pkg: Serve: x is required", name)
	}
	for name, value := range map[string]any{"value": struct{}{}, "text": "x", "pointer": &struct{}{}, "func": func() {}, "map": map[string]int{}} {
		f := Of("pkg: Config")
		f.Required("X", value)
		require.NoError(t, f.Err(), name)
		require.NoError(t, Required("pkg: Serve: x", value))
	}
}

func TestAbsolute(t *testing.T) {
	f := Of("pkg: Config")
	f.Absolute("Dir", "/x")
	require.NoError(t, f.Err())
	f.Absolute("Dir", "")
	f.Absolute("Root", "x")
	require.EqualError(t, f.Err(), "pkg: Config.Dir is required\npkg: Config.Root is not absolute: \"x\"")
}

func TestDefaults(t *testing.T) {
	var c struct {
		Period, Timeout time.Duration
		Burst           int
		Rate            float64
		OnEvent         func()
		Logger          *slog.Logger
	}
	c.Period, c.Burst, c.Rate = -time.Second, -2, 3
	f := Of("pkg: Config")
	Number(f, "Period", &c.Period, time.Minute)
	Number(f, "Timeout", &c.Timeout, time.Minute)
	Number(f, "Burst", &c.Burst, 10)
	Number(f, "Rate", &c.Rate, 10)
	Default(&c.OnEvent, func() {})
	Logger(&c.Logger)
	require.EqualError(t, f.Err(), "pkg: Config.Period is negative: -1s\npkg: Config.Burst is negative: -2")
	require.Equal(t, time.Minute, c.Timeout)
	require.EqualValues(t, 3, c.Rate)
	c.OnEvent()
	c.Logger.Info("discarded")
	require.EqualError(t, AlreadyRun("pkg"), "pkg: Run was called before")
}
