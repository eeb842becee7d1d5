package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBadProcess(t *testing.T) {
	_, _, err := withFile(t, "oomScoreAdj: 1001\nmaxOpenFiles: -1")
	require.ErrorContains(t, err, "oomScoreAdj: 1001 is not within")
	require.ErrorContains(t, err, "maxOpenFiles: -1 is negative")
}

// The log and traces: what has an effect is taken, and what cannot be is refused by name.
func TestLogAndTraces(t *testing.T) {
	c, _, err := withFile(t, "logging: {format: json, flushFrequency: 2s, verbosity: 4}\ntracing: {endpoint: 'collector:4317', samplingRatePerMillion: 100}\nmakeIPTablesUtilChains: false")
	require.NoError(t, err)
	require.Equal(t, "json", c.Kubelet.Logging.Format)
	require.Equal(t, "collector:4317", *c.Kubelet.Tracing.Endpoint)
	require.Equal(t, int32(100), *c.Kubelet.Tracing.SamplingRatePerMillion)
	require.False(t, *c.Kubelet.MakeIPTablesUtilChains)

	c, _, err = withFile(t, "", "--logging-format=json", "--log-flush-frequency=1s", "--make-iptables-util-chains=false")
	require.NoError(t, err)
	require.Equal(t, "json", c.Kubelet.Logging.Format)
	require.False(t, *c.Kubelet.MakeIPTablesUtilChains)

	_, _, err = withFile(t, "logging: {format: xml, flushFrequency: -1s}\ntracing: {endpoint: 'http://x', samplingRatePerMillion: 1000001}")
	require.ErrorContains(t, err, `logging.format: "xml" is neither text nor json`)
	require.ErrorContains(t, err, "logging.flushFrequency: -1s is not positive")
	require.ErrorContains(t, err, `tracing.endpoint: scheme "http" is none of dns, unix, unix-abstract`)
	require.ErrorContains(t, err, "tracing.samplingRatePerMillion: 1000001 is not within 0 and 1000000")
	for _, endpoint := range []string{"localhost:4317", "dns://google.com:4317", "unix:///run/collector.sock", "10.0.0.1:4317"} {
		_, _, err := withFile(t, "tracing: {endpoint: '"+endpoint+"'}")
		require.NoError(t, err)
	}
	_, _, err = withFile(t, "tracing: {endpoint: 'dn%2s://x'}")
	require.ErrorContains(t, err, "tracing.endpoint: ")
}
