package summary

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"
)

// equalsExpfmt compares the written text with that of Prometheus' own package.
func equalsExpfmt(t testing.TB, f families) {
	t.Helper()
	var ours, theirs bytes.Buffer
	require.NoError(t, f.write(&ours, expfmt.NewFormat(expfmt.TypeTextPlain)))
	all, err := f.Gather()
	require.NoError(t, err)
	encoder := expfmt.NewEncoder(&theirs, expfmt.NewFormat(expfmt.TypeTextPlain))
	for _, family := range all {
		require.NoError(t, encoder.Encode(family))
	}
	require.Equal(t, theirs.String(), ours.String())
}

func TestText(t *testing.T) {
	f := families{}
	for _, value := range []float64{
		0, 1, -1, 2, 0.5, 1e-5, 0.0001, 999999, 1e6, 1000001, 123456789, -999999, 1.5e9, 1 << 53, math.MaxFloat64, math.SmallestNonzeroFloat64,
		math.Inf(1), math.Inf(-1), math.NaN(), math.Copysign(0, -1),
	} {
		f.add(metricInfo{"value", "a \\ \"help\"\nof two lines", true}, nil, value, time.Time{})
		f.add(metricInfo{"timed", "", false}, pairs("b", "x\\y\n\"z\" é", "a", ""), value, time.UnixMilli(1700000000123))
	}
	f.add(metricInfo{"before", "sorted", false}, pairs("c", "1").and("d", "2", "a", "3"), 5, time.UnixMilli(-3))
	equalsExpfmt(t, f)
}

// FuzzText: names of pods and images may have any content.
func FuzzText(f *testing.F) {
	f.Add("c", "registry:5000/a@sha256:1", 1.5, int64(5))
	f.Fuzz(func(t *testing.T, name, image string, value float64, at int64) {
		name, image = strings.ToValidUTF8(name, "?"), strings.ToValidUTF8(image, "?") // gRPC guarantees valid UTF-8
		f := families{}
		f.add(metricInfo{"container_x", name, true}, pairs("name", name).and("image", image), value, time.UnixMilli(at))
		equalsExpfmt(t, f)
	})
}
