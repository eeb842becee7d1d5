package fake

import (
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// copyContainerConfig copies a config without its many environment variables, which the runtime
// keeps as text; see envOf.
func copyContainerConfig(from *runtimeapi.ContainerConfig) *runtimeapi.ContainerConfig {
	to := clone(from)
	to.Envs = nil
	return to
}

// fullConfig returns the config that CreateContainer received.
func (c *container) fullConfig() *runtimeapi.ContainerConfig {
	full := copyContainerConfig(c.config)
	for _, variable := range c.env {
		key, value, _ := strings.Cut(variable, "=")
		full.Envs = append(full.Envs, &runtimeapi.KeyValue{Key: key, Value: []byte(value)})
	}
	return full
}
