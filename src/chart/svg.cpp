#include "chart/chart.h"
namespace larder {}
