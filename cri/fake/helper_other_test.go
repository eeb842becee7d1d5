//go:build !linux

package fake_test

// helperAgentEnv is never set where there are no host processes.
const helperAgentEnv = "FAKE_TEST_HELPER_AGENT"

func helperAgent(string) {}
