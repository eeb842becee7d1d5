package probe

import "time"

// SetAgentStart replaces the time of New as the begin of the agent.
func SetAgentStart(c *Config, at time.Time) { c.agentStart = at }

// SetBudgets replaces the numbers of probes that are executed at a time.
func SetBudgets(c *Config, budgets map[Handler]int) { c.budgets = budgets }
