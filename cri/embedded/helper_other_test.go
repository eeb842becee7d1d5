//go:build !linux

package embedded_test

const helperAgentEnv = "EMBEDDED_TEST_HELPER_AGENT"

func helperAgent(string) {}
