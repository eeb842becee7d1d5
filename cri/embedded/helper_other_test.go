//go:build !linux

package embedded_test

// helperAgentEnv is never set where there are no host processes.
const helperAgentEnv = "EMBEDDED_TEST_HELPER_AGENT"

func helperAgent(string) {}
