package probe

import "time"

// SetAgentStart replaces the time of New as the start of the agent.
func SetAgentStart(c *Config, at time.Time) { c.agentStart = at }

// SetBudgets replaces the default budgets.
func SetBudgets(c *Config, budgets map[Handler]int) { c.budgets = budgets }
